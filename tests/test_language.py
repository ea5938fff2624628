"""Rules of the language: how docstrings begin, and words that have a better one in the field."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYTHON = ("src", "tests", "tools", "bench", "examples", "docs")
DATA = ("tests", "bench")
"""Folders whose strings are data: an account `nobody`, a text of a user. Their docstrings are checked all the same."""
PROSE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
PRONOUN_FIRST = re.compile(r"(What|Whether|Who|Whom|Whose|Those|Of|One|So|How|Where|When|Why|All)\b")
BANNED = re.compile(
    r"\b(hangs? on|so many|in vain|anew|nobody|somebody|whoever|there isn't|by then|goes by|comes to|is told"
    r"|in earnest|has it so|mend|lent|pretended|the waiting|room)\b",
    re.IGNORECASE,
)
RELATIVE = re.compile(r"\b(what(?!-if)|(?:return|yield|says?|of)\s+who)\b", re.IGNORECASE)
"""Relative clauses in place of a noun."""
SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+")
WORDS_MAX = 25
"""Words of one sentence; a colon and a semicolon end one, too, and a span of code is one word."""
NOT_PROSE = re.compile(r"```.*?```|^\s*(#|\|).*?$|(?<=\])\([^)]*\)", re.DOTALL | re.MULTILINE)
"""Code, headings, tables and targets of links in a page."""
CAMEL_CASE = re.compile(r"(?<=[a-z])(?=[A-Z])")


@cache
def text_of(file: Path) -> str:
    """Return the text of a file, read once."""
    return file.read_text()


def python_files() -> list[Path]:
    """Return all Python files of the project, but not this one, which names the words."""
    files = [file for folder in PYTHON for file in sorted((ROOT / folder).rglob("*.py"))]
    return [file for file in files if file != Path(__file__) and "_build" not in file.parts]


def pages() -> list[Path]:
    """Return the pages of the documentation, the sources of the dashboard, and the tables of the program."""
    docs = [file for file in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in file.parts]
    web = [file for file in sorted((ROOT / "web" / "src").rglob("*")) if file.is_file()]
    return [*(ROOT / name for name in PROSE), *docs, *web, *sorted((ROOT / "src").rglob("*.yaml"))]


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Yield the docstrings of a module, those of its constants and fields included."""
    for node in ast.walk(tree):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.value


def words(name: str) -> str:
    """Return an identifier as words."""
    return CAMEL_CASE.sub(" ", name).replace("_", " ")


def long_sentences(text: str) -> list[str]:
    """Return the sentences of a text that have too many words."""
    parts = re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.)\s", re.sub(r"`[^`]*`", "code", text))
    sentences = [sentence for part in parts for sentence in SENTENCE_END.split(part)]
    return [" ".join(each.split()) for each in sentences if len(re.findall(r"[\w'./-]+", each)) > WORDS_MAX]


def pronoun_first(source: str) -> list[str]:
    """Return the docstrings that begin with a pronoun or a relative word."""
    return [text for text in docstrings(ast.parse(source)) if PRONOUN_FIRST.match(text)]


def relative_summaries(source: str) -> list[str]:
    """Return the first paragraphs of docstrings that have a relative clause in place of a noun."""
    summaries = [text.strip().partition("\n\n")[0] for text in docstrings(ast.parse(source))]
    return [text for text in summaries if RELATIVE.search(text)]


def banned_in_code(source: str, *, strings_are_data: bool) -> list[str]:
    """Return banned words of docstrings, comments and names, and of strings that aren't data."""
    if not BANNED.search(words(source)):
        return []
    tree = ast.parse(source)
    texts = list(docstrings(tree))
    if not strings_are_data:
        constants = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        texts += [value for value in constants if isinstance(value, str)]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            texts.append(token.string)
        elif token.type == tokenize.NAME:
            texts.append(words(token.string))
    return [text for text in texts if BANNED.search(text)]


def test_no_docstring_begins_with_a_pronoun() -> None:
    found = {str(file.relative_to(ROOT)): pronoun_first(text_of(file)) for file in python_files()}
    assert not {file: texts for file, texts in found.items() if texts}


def test_no_summary_has_a_relative_clause_in_place_of_a_noun() -> None:
    sources = [file for file in python_files() if file.is_relative_to(ROOT / "src")]
    found = {str(file.relative_to(ROOT)): relative_summaries(text_of(file)) for file in sources}
    assert not {file: texts for file, texts in found.items() if texts}


def test_sentences_of_docstrings_are_short() -> None:
    sources = [file for file in python_files() if file.is_relative_to(ROOT / "src")]
    texts = [(file, text) for file in sources for text in docstrings(ast.parse(text_of(file)))]
    assert not [f"{file.relative_to(ROOT)}: {each}" for file, text in texts for each in long_sentences(text)]


@pytest.mark.parametrize("folder", ["tutorials", "how-to", "explanation"])
def test_sentences_of_pages_are_short(folder: str) -> None:
    files = [ROOT / "README.md", *sorted((ROOT / "docs" / folder).rglob("*.md"))]
    assert len(files) > 1
    found = [(file, each) for file in files for each in long_sentences(NOT_PROSE.sub("", text_of(file)))]
    assert not [f"{file.relative_to(ROOT)}: {each}" for file, each in found]


def test_long_sentences_are_found_and_lists_and_code_are_not_counted() -> None:
    words_26 = " ".join(["word"] * 26)
    assert long_sentences(f"A short one. {words_26}.") == [f"{words_26}."]
    assert long_sentences(" ".join(["word"] * 25) + ".") == []
    assert long_sentences(f"The command `{words_26}` does it.") == []
    assert (
        long_sentences(NOT_PROSE.sub("", f"```console\n{words_26}\n```\n| {words_26} |\n# {words_26}")) == []
    )


def test_code_has_no_banned_word() -> None:
    found = {}
    for file in python_files():
        path = file.relative_to(ROOT)
        if texts := banned_in_code(text_of(file), strings_are_data=path.parts[0] in DATA):
            found[str(path)] = texts
    assert not found


def test_pages_have_no_banned_word() -> None:
    found = {str(file.relative_to(ROOT)): BANNED.findall(words(text_of(file))) for file in pages()}
    assert not {file: texts for file, texts in found.items() if texts}


@pytest.mark.parametrize(
    "source",
    [
        '"""What a module holds."""',
        'def f():\n    """Whether it is so."""',
        'LIMIT = 1\n"""How many there may be."""',
        'class C:\n    field: int\n    """Of one pod."""',
    ],
)
def test_pronouns_are_found_in_each_kind_of_docstring(source: str) -> None:
    assert pronoun_first(source)


@pytest.mark.parametrize("text", ["Return what is free.", "Return who may do\n    it.", "It says who leads."])
def test_relative_clauses_are_found_in_summaries(text: str) -> None:
    assert relative_summaries(f'def f():\n    """{text}"""')


@pytest.mark.parametrize(
    "source",
    [
        '"""Room for pods."""',
        "a = 1  # for nobody",
        "room = 1",
        "def start_anew(): ...",
        "class LentDevices: ...",
    ],
)
@pytest.mark.parametrize("strings_are_data", [False, True])
def test_banned_words_are_found_in_docstrings_comments_and_names(source: str, strings_are_data: bool) -> None:
    assert banned_in_code(source, strings_are_data=strings_are_data)


def test_banned_words_are_found_in_messages() -> None:
    assert banned_in_code('refuse("nobody asks")', strings_are_data=False)
    assert not banned_in_code('user = "nobody"', strings_are_data=True)
