"""In a fresh interpreter: what the runtime does without torch, transformers and its own extras."""

import json
import subprocess
import sys
from pathlib import Path

import twofold_runtime

MODULES = sorted(path.stem for path in Path(twofold_runtime.__file__).parent.glob("*.py") if path.stem != "__init__")
HEAVY = ("torch", "transformers", "twofold", "safetensors", "tyro", "rich")
EXTRAS = ("tokenizers", "PIL")


def run(code, blocked=(*HEAVY, *EXTRAS)):
    code = f"import sys\nsys.modules.update(dict.fromkeys({blocked!r}))\n{code}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


PREDICTS = """
import json
import numpy as np
from twofold_runtime.predictor import Predictor, codec_class
from twofold_runtime.tokens import WordVocabulary

words = {"word:lights": 5, "word:off": 6, "word:kitchen": 7}
reading = {
    "goals": ["", "lights_off", "stop"],
    "slot_labels": ["O", "B-room", "I-room"],
    "slots": {"lights_off": ["room"], "stop": []},
    "evidence": "sigmoid_of_logit",
}

def engine(arrays):
    ids = arrays["input_ids"]
    has_lights = (ids == 5).any(1)
    goal_logits = np.where(has_lights[:, None], [0.0, 5, 0], [5.0, 0, 0]).astype(np.float32)
    slot_logits = np.where((ids == 7)[..., None], [0.0, 5, 0], [5.0, 0, 0]).astype(np.float32)
    return {"goal_logits": goal_logits, "slot_logits": slot_logits}

calibration = {"temperature": 1.0, "threshold": 0.9}
predictor = Predictor(codec_class("goals")(reading, calibration, WordVocabulary(words)), engine)
for one in predictor.predict_many(["Kitchen lights off", "sing"]):
    print(json.dumps(dict(one)))
print([name for name in ("torch", "transformers") if sys.modules.get(name)])
"""


def test_a_goal_is_predicted_with_numpy_alone():
    goal, outside, loaded = run(PREDICTS).splitlines()
    goal = json.loads(goal)
    assert (goal["text"], goal["goal"]) == ("Kitchen lights off", "lights_off")
    assert goal["slots"] == [{"name": "room", "value": "Kitchen", "start": 0, "end": 7}]
    assert goal["confidence"] > 0.9
    assert (json.loads(outside)["goal"], json.loads(outside)["slots"]) == (None, [])
    assert loaded == "[]"


def test_every_module_is_imported_without_the_extras():
    assert len(MODULES) > 10
    run("\n".join(f"import twofold_runtime.{name}" for name in MODULES))


def test_a_missing_extra_is_named(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    told = run(
        f"""
from pathlib import Path
from twofold_runtime.images import read_image
from twofold_runtime.tokens import TextTokenizer
for read in (TextTokenizer.read, read_image):
    try:
        read(Path({str(tmp_path)!r}))
    except ValueError as error:
        print(error)
"""
    ).splitlines()
    assert "pip install 'twofold-runtime[text]'" in told[0]
    assert "pip install pillow" in told[1]


def test_importing_loads_numpy_and_nothing_heavier():
    names = (*HEAVY, *EXTRAS)
    code = f"import twofold_runtime.predictor; print([name for name in {names!r} if name in sys.modules])"
    assert run(code, blocked=()) == "[]"
