"""A folder per class: labels from the folders' names, and layouts of which nobody could say what they mean."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from glassformer import DataError, InputError, make_label2id, read_rows
from glassformer.cli.rows.input_rows import known_count


@pytest.fixture
def imdb(write):
    """The layout of IMDB as published."""
    for part in ("train", "test"):
        write(f"aclImdb/{part}/pos/0_9.txt", "A fine film.<br /><br />Really.")
        write(f"aclImdb/{part}/pos/1_7.txt", "Good.\n")
        write(f"aclImdb/{part}/neg/0_2.txt", "Caf\u00e9 noir, dull.\r\nTwo lines.")
        write(f"aclImdb/{part}/urls_pos.txt", "http://www.imdb.com/title/tt0453418/usercomments\n")
        write(f"aclImdb/{part}/urls_neg.txt", "http://www.imdb.com/title/tt0064354/usercomments\n")
        write(f"aclImdb/{part}/labeledBow.feat", "9 0:9 1:1\n")
    write("aclImdb/train/unsup/0_0.txt", "Nobody judged this.")
    write("aclImdb/train/urls_unsup.txt", "http://www.imdb.com/title/tt0018515/usercomments\n")
    write("aclImdb/imdb.vocab", "the\n")
    write("aclImdb/imdbEr.txt", "0.04\n")
    write("aclImdb/README", "Large Movie Review Dataset\n")
    return "aclImdb"


def test_imdb_as_published(imdb, caplog):
    with caplog.at_level(logging.WARNING, "glassformer"):
        rows = read_rows(f"{imdb}/train", types={"label": str}, needed=("text", "label"))
    notes = [record.getMessage() for record in caplog.records]
    assert [(row["text"], row["label"], row.place) for row in rows] == [
        ("Caf\u00e9 noir, dull.\nTwo lines.", "neg", "aclImdb/train/neg/0_2.txt"),
        ("A fine film.<br /><br />Really.", "pos", "aclImdb/train/pos/0_9.txt"),
        ("Good.", "pos", "aclImdb/train/pos/1_7.txt"),
    ]
    assert make_label2id(rows) == {"neg": 0, "pos": 1} and known_count(rows) == 3
    assert notes == [
        "aclImdb/train: its folders are read as classes, and not the files beside them: urls_neg.txt, urls_pos.txt, "
        "urls_unsup.txt",
        "aclImdb/train/unsup: 1 files without a label are left out; name that folder to read them",
    ]
    assert [dict(row) for row in read_rows(f"{imdb}/train/unsup")] == [{"text": "Nobody judged this."}]
    with pytest.raises(InputError, match="holds the parts of a data set, not classes: name one of 'aclImdb/test' and"):
        read_rows(imdb)


def test_news_groups_have_names_without_suffix_and_an_encoding(write, caplog):
    write("news/sci.med/59487", b"Subject: na\xefve\n\nSome text.\n")
    write("news/alt.atheism/49960", "Subject: hi\n\nOther text.\n")
    write("news/alt.atheism/.hidden", "no")
    rows = read_rows("news", encoding="latin-1")
    assert [dict(row) for row in rows] == [
        {"text": "Subject: hi\n\nOther text.", "label": "alt.atheism"},
        {"text": "Subject: na\u00efve\n\nSome text.", "label": "sci.med"},
    ]
    assert not caplog.records
    with pytest.raises(DataError, match=r"^news/sci\.med/59487, line 1: not UTF-8 .*encoding"):
        list(read_rows("news"))
    skipping = read_rows("news", on_bad="skip")
    assert [row["label"] for row in skipping] == ["alt.atheism"] and skipping.skipped.count == 1
    with pytest.raises(InputError, match=r"folder 'news/sci\.med' holds no files .* each file as one text, .*document"):
        read_rows("news/sci.med")
    assert [row["text"] for row in read_rows("news/alt.atheism", format="document")] == ["Subject: hi\n\nOther text."]


def test_pictures_and_recordings_are_paths(write, caplog):
    for name in ("cat/b.jpg", "cat/a.PNG", "dog/1.jpeg", "dog/notes.md", "LICENSE.txt"):
        write("pets/" + name, b"\xff\xd8")
    write("words/yes/1.wav", b"RIFF")
    write("words/no/1.flac", b"fLaC")
    with caplog.at_level(logging.WARNING, "glassformer"):
        pets = read_rows("pets")
    assert [dict(row) for row in pets] == [
        {"image": "pets/cat/a.PNG", "label": "cat"},
        {"image": "pets/cat/b.jpg", "label": "cat"},
        {"image": "pets/dog/1.jpeg", "label": "dog"},
    ]
    assert [record.getMessage() for record in caplog.records] == [
        "pets: its folders are read as classes, and not the files beside them: LICENSE.txt",
        "pets: 1 entries are not read, as they are no images, such as dog/notes.md",
    ]
    assert [dict(row) for row in read_rows("words")] == [
        {"audio": "words/no/1.flac", "label": "no"},
        {"audio": "words/yes/1.wav", "label": "yes"},
    ]
    flat = [dict(row) for row in read_rows("pets/cat")]
    assert flat == [{"image": "pets/cat/a.PNG"}, {"image": "pets/cat/b.jpg"}]
    assert [row["image"] for row in read_rows("pets/*/*.jp*g")] == ["pets/cat/b.jpg", "pets/dog/1.jpeg"]
    write("pets/dog/bark.wav", b"RIFF")
    with pytest.raises(InputError, match="hold pictures and recordings"):
        read_rows("pets")
    with pytest.raises(InputError, match="encoding is for files of text, and image is none"):
        read_rows("pets/cat", encoding="gbk")


def test_numbers_as_folder_names_are_labels_in_the_order_of_numbers(write):
    for label in ("10", "9", "0"):
        write(f"digits/{label}/1.png", b"\x89PNG")
    assert make_label2id(read_rows("digits")) == {"0": 0, "9": 1, "10": 2}
    assert [row["label"] for row in read_rows("digits", types={"label": int})] == [0, 10, 9]


def test_links_that_lead_up_or_give_a_folder_two_names_are_refused(write):
    write("d/a/1.txt", "one")
    write("d/b/1.txt", "two")
    os.symlink("../..", "d/b/up")  # inside a class, where folders are not entered
    assert [row["text"] for row in read_rows("d")] == ["one", "two"]
    os.symlink("a", "d/c")
    with pytest.raises(InputError, match="'d/a' and 'd/c' are one folder"):
        read_rows("d")
    Path("d/c").unlink()
    write("1.txt", "above")
    os.symlink("..", "d/c")
    with pytest.raises(InputError, match=r"'d/c' is a link to .* which holds it"):
        read_rows("d")
    Path("d/c").unlink()
    os.symlink("c", "d/c")
    assert len(list(read_rows("d"))) == 2  # a link to itself is no folder
    os.symlink("gone.txt", "d/a/2.txt")
    with pytest.raises(InputError, match=r"'d/a/2\.txt' is a link to a file that is not there"):
        read_rows("d")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("d/a/1.txt", "d/b/1.txt", "d/notes.txt"), r"holds files, such as 'notes\.txt', and folders that may be"),
        (("d/a/1.txt",), "'d' holds one folder of files, so one class: name 'd/a' itself"),
        (("d/train/1.txt", "d/test/1.txt"), "holds the parts of a data set"),
        (("d/a/b/1.txt", "d/c/b/1.txt"), "holds no files .*; name a folder in it, such as 'd/a' or 'd/c'"),
    ],
)
def test_layouts_that_are_no_classes(write, names, message):
    for name in names:
        write(name, "text")
    with pytest.raises(InputError, match=message):
        read_rows("d")


def test_an_empty_text_and_one_that_is_none(write):
    write("d/a/1.txt", " \n")
    write("d/b/1.txt", b"a\0b")
    rows = read_rows("d", on_bad="skip")
    with pytest.raises(DataError, match=r"d/a/1\.txt is empty; d/b/1\.txt, line 1: no text \(a byte that is zero\)"):
        list(rows)
