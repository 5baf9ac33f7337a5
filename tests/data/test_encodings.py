"""Files in other encodings than UTF-8, and errors that name a likely one."""

from __future__ import annotations

import gzip
import json

import pytest

from glassformer import DataError, InputError, read_parallel, read_rows
from glassformer.text.base.character_encodings import guess_encoding, read_text_lines

CHINESE = ["这家饭店的菜很好吃，我们下次还会来。", "不好吃，服务也很差。", "联通"]
SAMPLES = {
    "gbk": "我们在这里住了三天，房间很干净，服务员的态度也很好，就是早餐的种类少了一点。",
    "big5": "我們在這裡住了三天，房間很乾淨，服務員的態度也很好，就是早餐的種類少了一點。",
    "shift_jis": "わたしたちはここに三日間泊まりました。部屋はとてもきれいでした。",
    "euc_jp": "わたしたちはここに三日間泊まりました。部屋はとてもきれいでした。",
    "euc_kr": "우리는 여기에서 사흘을 지냈다. 방은 아주 깨끗하고 아침 식사도 좋았다.",
    "cp1251": "Мы жили здесь три дня, номер был очень чистый и завтрак хороший.",
    "koi8_r": "Мы жили здесь три дня, номер был очень чистый и завтрак хороший.",
    "cp1252": "Das Zimmer war schön und ruhig, das Frühstück köstlich; déjà réservé.",
}


def texts(source, **options):
    return [row["text"] for row in read_rows(source, **options)]


def test_a_file_that_is_closed_before_its_end_is_left_in_silence(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\n", encoding="utf-16")
    with open(tmp_path / "a.txt", "rb") as file:
        lines = read_text_lines(file, "a.txt", "utf-16")
        assert next(lines) == (1, "one\n")
    lines.close()  # raised: I/O operation on closed file


@pytest.mark.parametrize(
    "encoding", ["gbk", "GB18030", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig", "UTF8"]
)
def test_lines_and_tables_in_an_encoding(write, encoding):
    assert texts(write("a.txt", "\r\n".join(CHINESE).encode(encoding)), encoding=encoding) == CHINESE
    table = "text,label\n" + "".join(f"{text},{i}\n" for i, text in enumerate(CHINESE))
    rows = list(read_rows(write("a.csv", table.encode(encoding)), encoding=encoding))
    assert rows == [{"text": text, "label": str(i)} for i, text in enumerate(CHINESE)]
    assert [row.line for row in rows] == [2, 3, 4]
    packed = gzip.compress("\n".join(CHINESE).encode(encoding))
    assert texts(write("b.txt.gz", packed), encoding=encoding) == CHINESE


@pytest.mark.parametrize("encoding", ["gbk", "utf-16", "utf-16-be"])
def test_documents_and_sentences_in_an_encoding(write, encoding):
    document = json.dumps([{"text": text} for text in CHINESE], ensure_ascii=False)
    assert texts(write("a.json", document.encode(encoding)), encoding=encoding) == CHINESE
    lines = "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in CHINESE)
    assert texts(write("a.jsonl", lines.encode(encoding)), encoding=encoding) == CHINESE
    (row,) = read_rows(write("a.conll", "北\tB-LOC\n京\tI-LOC\n".encode(encoding)), encoding=encoding)
    assert row == {"tokens": ["北", "京"], "tags": ["B-LOC", "I-LOC"]}
    write("a.zh", "\n".join(CHINESE).encode(encoding))
    write("a.en", "good\nbad\nname\n".encode(encoding))
    rows = list(read_parallel({"source": "a.zh", "target": "a.en"}, encoding=encoding))
    assert rows[1] == {"source": CHINESE[1], "target": "bad"}


@pytest.mark.parametrize("name, content", [("a.csv", "text,label\nfine,1\n"), ("a.conll", "Ada\tB-PER\n")])
def test_utf8_with_a_mark_needs_no_encoding(write, name, content):
    marked, plain = write(name, "\ufeff" + content), write(f"plain-{name}", content)
    for options in ({}, {"encoding": "utf-8"}, {"encoding": "utf-8-sig"}):
        assert list(read_rows(marked, **options)) == list(read_rows(plain))


@pytest.mark.parametrize("encoding", SAMPLES)
def test_an_error_names_the_likely_encoding(write, encoding):
    raw = SAMPLES[encoding].encode(encoding)
    assert guess_encoding(raw) == encoding
    name = write("a.txt", b"plain\n" + raw + b"\n")
    message = rf"^a\.txt, line 2: not UTF-8 \(.*it looks like {encoding}: encoding='{encoding}' reads it"
    with pytest.raises(DataError, match=message):
        texts(name)
    assert texts(name, encoding=encoding) == ["plain", SAMPLES[encoding]]
    document = write("a.json", b'[{"text": "' + SAMPLES["cp1252"].encode("cp1252") + b'"}]')
    with pytest.raises(DataError, match=r"a\.json, line 1: .*encoding='cp1252'"):
        list(read_rows(document))


def test_a_short_line_is_judged_with_the_rest_of_its_file(write):
    name = write("a.txt", "联\n".encode("gbk") + SAMPLES["gbk"].encode("gbk"))
    with pytest.raises(DataError, match=r"line 1: not UTF-8 .*encoding='gbk'"):
        texts(name)


def test_bytes_without_a_likely_encoding_ask_for_it(write):
    with pytest.raises(DataError, match=r"line 1: not UTF-8 \(.*convert the file to UTF-8 or name its encoding"):
        texts(write("a.txt", b"fine \xff\n"))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_is_named_with_and_without_a_mark(write, encoding):
    with pytest.raises(DataError, match=rf"a\.txt looks like {encoding.upper()}.*encoding='{encoding}'"):
        texts(write("a.txt", "plain text\n".encode(encoding)), on_bad="skip")
    with pytest.raises(DataError, match=r"a\.txt is written in UTF-16; encoding='utf-16' reads it"):
        texts(write("a.txt", ("\ufeff" + "plain text\n").encode(encoding)))


@pytest.mark.parametrize("encoding", ["gbk", "latin-1", "cp1252"])
def test_utf8_read_in_another_encoding_is_refused(write, encoding):
    for content in ("\n".join(CHINESE), "\ufeff" + "\n".join(CHINESE)):
        with pytest.raises(DataError, match=r"UTF-8"):
            texts(write("a.txt", content), encoding=encoding)


def test_lines_that_do_not_fit_are_skipped(write):
    rows = read_rows(
        write("a.txt", "好\n".encode("gbk") + b"\xff\xff\n" + "吃\n".encode("gbk")), encoding="gbk", on_bad="skip"
    )
    assert [row["text"] for row in rows] == ["好", "吃"]
    assert "a.txt, line 2: not GBK" in rows.skipped.reasons[0]
    with pytest.raises(DataError, match=r"a\.txt, line 1 or after it: not UTF-16"):  # a decoder reads ahead
        texts(write("a.txt", "one\n".encode("utf-16") + b"\x00\xdc\x00"), encoding="utf-16")


def test_an_unknown_encoding_is_refused(write):
    name = write("a.txt", "a\n")
    for wrong, hint in (("gkb", "did you mean 'gbk'"), ("base64", "Python's for text"), (7, "got int 7")):
        with pytest.raises(InputError, match=hint):
            read_rows(name, encoding=wrong)
    with pytest.raises(InputError, match="parquet is none"):
        read_rows(write("a.parquet", b""), encoding="gbk")
