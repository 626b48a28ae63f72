"""An exact search over vectors, and an index whose files run.json names."""

import numpy as np
import pytest
from fakes import ByteTokenizer
from hypothesis import given
from hypothesis import strategies as st

from twofold_runtime.folder import RunRecord, check_files, read_run, sha256_of, write_run
from twofold_runtime.predictor import Predictor
from twofold_runtime.ranking import LONGEST, Document, Index, RankingCodec
from twofold_runtime.tokens import TextTokenizer

TRAINING = {"model": {}, "settings": {}, "choices": {}, "data": None, "digest": None}


def made(count=7, width=4, seed=0):
    vectors = np.random.default_rng(seed).normal(size=(count, width)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return Index([Document(str(place), f"text {place} 猫") for place in range(count)], vectors)


@pytest.fixture
def folder(tmp_path):
    """A finished run with one file of its own."""
    (tmp_path / "own.txt").write_text("own")
    files = {"own.txt": sha256_of(tmp_path / "own.txt")}
    record = RunRecord(task="retrieval", word_rules=None, reading={}, training=TRAINING, finished=True, files=files)
    write_run(tmp_path, record)
    return tmp_path


def index_files(folder):
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("index-"))


@given(seed=st.integers(0, 1000), top=st.integers(1, 12))
def test_the_best_are_found_best_first(seed, top):
    index = made(seed=seed)
    query = made(seed=seed + 1).vectors[0]
    cosines = index.vectors.astype(np.float64) @ query.astype(np.float64)
    found = index.search(query, top)
    assert [score for _, score in found] == pytest.approx(sorted(cosines, reverse=True)[:top], abs=1e-6)
    assert [cosines[int(document.id)] for document, _ in found] == pytest.approx(
        [score for _, score in found], abs=1e-6
    )
    assert len({document.id for document, _ in found}) == min(top, 7)


def test_a_document_is_nearest_to_itself_and_equal_ones_keep_their_order():
    index = made()
    assert [index.search(vector)[0][0].id for vector in index.vectors] == [str(place) for place in range(7)]
    same = Index(index.documents, np.repeat(index.vectors[:1], 7, axis=0))
    assert [document.id for document, _ in same.search(index.vectors[0], 5)] == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("vectors", lambda index: Index(index.documents, index.vectors[1:])),
        ("vectors", lambda index: Index(index.documents, index.vectors[0])),
        ("query", lambda index: index.search(index.vectors[0, :3])),
        ("query", lambda index: index.search(index.vectors)),
    ],
)
def test_a_wrong_shape_is_refused(name, wrong):
    with pytest.raises(ValueError, match=rf"^{name} must .*got (shape )?\("):
        wrong(made())


def test_an_index_comes_back_as_it_was(folder):
    index = made()
    index.write(folder)
    read = Index.read(folder, read_run(folder).files)
    assert list(read.documents) == index.documents
    assert np.array_equal(read.vectors, index.vectors)
    assert read.search(index.vectors[3]) == index.search(index.vectors[3])


def test_run_json_names_its_files_and_only_its(folder):
    before = read_run(folder).files
    made().write(folder)
    files = read_run(folder).files
    assert sorted(set(files) - set(before)) == index_files(folder)
    assert [name.split(".")[1] for name in index_files(folder)] == ["json", "npy"]
    check_files(folder, read_run(folder))
    made().write(folder)
    assert read_run(folder).files == files
    made(seed=1).write(folder)
    after = read_run(folder).files
    assert after["own.txt"] == before["own.txt"]
    assert len(index_files(folder)) == 2
    assert set(index_files(folder)).isdisjoint(files)
    assert sorted(set(after) - set(before)) == index_files(folder)
    check_files(folder, read_run(folder))


def test_an_index_that_was_never_made(folder):
    with pytest.raises(ValueError, match="has no index of documents yet: `twofold evaluate` makes it"):
        Index.read(folder, read_run(folder).files)


@pytest.mark.parametrize(
    ("ending", "content"),
    [
        (".json", b"{"),
        (".json", b'{"id": "a", "text": "b"}'),
        (".json", b'[{"id": "a"}]'),
        (".json", b'[{"id": "a", "text": 3}]'),
        (".npy", b"cut"),
        (".npy", b""),
    ],
)
def test_a_damaged_file_is_named(folder, ending, content):
    made().write(folder)
    [name] = [name for name in index_files(folder) if name.endswith(ending)]
    (folder / name).write_bytes(content)
    # It can be made anew, so that it does not keep the run from being opened.
    check_files(folder, read_run(folder))
    with pytest.raises(ValueError, match=name):
        Index.read(folder, read_run(folder).files)


def test_an_array_of_objects_is_not_unpickled(folder):
    made().write(folder)
    [name] = [name for name in index_files(folder) if name.endswith(".npy")]
    np.save(folder / name, np.array([{}, []], object), allow_pickle=True)
    with pytest.raises(ValueError, match=name):
        Index.read(folder, read_run(folder).files)


def codec():
    return RankingCodec({}, {}, TextTokenizer(ByteTokenizer(ends=True)))


class Counting:
    """An engine whose vector of a text depends on its length alone."""

    def __call__(self, arrays):
        places = arrays["attention_mask"].sum(1) % 7
        return {"pooler_output": made().vectors[places]}


def test_an_opened_run_searches_its_index(folder):
    made().write(folder)
    reader = codec()
    reader.opened_in(folder, read_run(folder))
    found = Predictor(reader, Counting()).predict("roof")
    assert (found["text"], len(found["documents"])) == ("roof", 7)
    assert found["documents"][0] == {"id": "5", "score": pytest.approx(1), "text": "text 5 猫"}
    lines = reader.shown(found).splitlines()
    assert lines[0] == "roof"
    assert lines[1].split() == ["1.00", "5:", "text", "5", "猫"]


def test_without_a_run_there_is_no_index():
    with pytest.raises(ValueError, match="no index of documents to search in"):
        Predictor(codec(), Counting()).predict("roof")


@pytest.mark.parametrize("text", ["", " \n", None, 3])
def test_nothing_to_search_for(text):
    with pytest.raises(ValueError, match=r"^text "):
        codec().encode(text)


def test_a_long_text_is_cut():
    assert len(codec().encode("many words " * 5000).rows[0]["input_ids"]) == LONGEST
