"""Run by the transformers 4 interpreter: writes what its pipeline, which transformers 5 has no more, answers.

python record_question_answering.py question_answering.json
"""

import json
import sys
import tempfile
from pathlib import Path

import transformers

sys.path.insert(0, str(Path(__file__).parent))
from tiny import SHAPE, VOCAB, fill

SHORT = "John Smith lives in London. He works for Acme, in the park."
LONG = (
    "The cat sat on the mat in the park. John Smith, who lives in New York, works for Acme. Today is good, not bad! "
    "The unaffable dog was playing in London. It is so very good, and the film was not. Did John play music? "
)
CASES = [
    {"question": "Where did John live?", "context": SHORT},
    {"question": ["Who works for Acme?", "what is it"], "context": SHORT},
    {"question": ["Who works for Acme?"], "context": [SHORT]},
    {"question": "Who works for Acme?", "context": SHORT, "top_k": 3},
    {"question": "Who works for Acme?", "context": SHORT, "max_answer_len": 2, "top_k": 4},
    {"question": "Who works for Acme?", "context": SHORT, "align_to_words": False, "top_k": 5},
    {"question": "Who works for Acme?", "context": SHORT, "handle_impossible_answer": True},
    {"question": "Who works for Acme?", "context": SHORT, "handle_impossible_answer": True, "top_k": 4},
    {"question": "Who is unaffable?", "context": LONG},
    {"question": "Who is unaffable?", "context": LONG, "top_k": 6},
    {"question": "Who is unaffable?", "context": LONG, "doc_stride": 5},
    {"question": "Who is unaffable?", "context": LONG, "doc_stride": 0, "top_k": 2},
    {"question": "Who is unaffable?", "context": LONG, "max_seq_len": 20, "doc_stride": 8},
    {"question": "Who is unaffable?", "context": LONG, "handle_impossible_answer": True, "max_answer_len": 30},
    {"question": "小明在北京 ?", "context": "我爱北京天安门. 小明 in London! 我爱小明", "max_answer_len": 6},
    {"question": "unaffable zebra?", "context": "a zebra, playing - it's unaffable's zebra"},
]

with tempfile.TemporaryDirectory() as folder:
    vocabulary = Path(folder) / "vocab.txt"
    vocabulary.write_text("\n".join(VOCAB) + "\n", encoding="utf-8")
    tokenizer = transformers.BertTokenizerFast(str(vocabulary), model_max_length=SHAPE["max_position_embeddings"])
model = fill(transformers.BertForQuestionAnswering(transformers.BertConfig(**SHAPE)))
pipe = transformers.pipeline("question-answering", model=model, tokenizer=tokenizer, device=-1)
recorded = [{"call": case, "answer": pipe(**case)} for case in CASES]
made_by = f"transformers {transformers.__version__}"
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump({"made_by": made_by, "cases": recorded}, file, ensure_ascii=False, indent=1)
    file.write("\n")
