"""From a goal to what is done about it: a program, an address, or a function that somebody registered.

actions.toml says which, goal by goal:

    allow = ["http://127.0.0.1:8123/"]             # beginnings of addresses that may be called
    proxy = false                                  # whether they are called through the system's proxies
    least_confidence = 0.5

    [lights_off]
    run = ["lights", "--room", "{room}", "off"]    # a program and its arguments, without a shell
    defaults = { room = "everywhere" }

    [weather_ask]
    open = "http://127.0.0.1:8123/weather?city={city}"

    [timer_start]
    call = "start_timer"                           # a function given to `act`

A slot's value fills one argument, or one part of an address, whatever is in it; it never reaches a shell. Nothing is
done unless `act` is called, and a prediction that is out of scope or below `least_confidence` has no action.
"""

import re
import subprocess
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path, PurePath
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, unquote, urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from twofold_runtime.checked import shown

FILE = "actions.toml"
WAYS = ("run", "open", "call")
PLACE = re.compile(r"\{([^{}]+)\}")
SECONDS = 30.0
# Programs that run what their arguments say.
SHELLS = frozenset(
    {
        *("sh", "bash", "dash", "ash", "zsh", "ksh", "csh", "tcsh", "fish", "busybox", "eval", "xargs", "ssh", "su"),
        *("cmd", "cmd.exe", "powershell", "pwsh"),
    }
)
# Programs that do so after one of these options; a version may follow the name.
INTERPRETERS = frozenset(
    {"python", "perl", "ruby", "node", "php", "lua", "awk", "gawk", "mawk", "osascript", "Rscript"}
)
CODE_OPTIONS = re.compile(r"-[A-Za-z]*[ceErR]|--eval|--execute|--command")

Handler = Callable[[dict[str, str]], object]


@dataclass(frozen=True, slots=True)
class Action:
    """What is to be done: exactly one of an argument list, an address, or the name of a function with its slots."""

    run: tuple[str, ...] | None = None
    open: str | None = None
    call: str | None = None
    slots: tuple[tuple[str, str], ...] = ()

    def described(self) -> str:
        """For people: arguments one by one, so that it shows where each ends."""
        if self.run is not None:
            return "run " + " ".join(repr(word) for word in self.run)
        if self.open is not None:
            return f"open {self.open}"
        return f"call {self.call}({', '.join(f'{name}={value!r}' for name, value in self.slots)})"

    def as_json(self) -> dict[str, Any]:
        if self.call is not None:
            return {"call": self.call, "slots": dict(self.slots)}
        return {"run": list(self.run)} if self.run is not None else {"open": self.open}


@dataclass(frozen=True, slots=True)
class Actions:
    """What an actions.toml says, checked."""

    goals: Mapping[str, Mapping[str, Any]]
    allow: tuple[str, ...] = ()
    least_confidence: float = 0.5
    proxy: bool = False

    @classmethod
    def read(cls, path: Path) -> "Actions":
        """What a file says. ValueError, naming the file and the field, where something is amiss."""
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"{path}: {error}") from error
        allow, proxy, least = (
            content.pop("allow", []),
            content.pop("proxy", False),
            content.pop("least_confidence", 0.5),
        )
        if not isinstance(allow, list) or not all(isinstance(one, str) and _is_beginning(one) for one in allow):
            raise ValueError(
                f"{path}: allow must list addresses that begin with http(s)://host/, without a user and without "
                f"'..', got {shown(allow)}"
            )
        if not isinstance(proxy, bool):
            raise ValueError(f"{path}: proxy must be true or false, got {shown(proxy)}")
        if isinstance(least, bool) or not isinstance(least, int | float) or not 0 <= least <= 1:
            raise ValueError(f"{path}: least_confidence must be a number from 0 to 1, got {shown(least)}")
        for goal, entry in content.items():
            _check(f"{path}: [{goal}]", entry, allow)
        return cls(content, tuple(allow), float(least), proxy)

    @classmethod
    def of_run(cls, folder: Path) -> "Actions | None":
        """Of the actions.toml in a run's folder; None where there is none."""
        path = folder / FILE
        return cls.read(path) if path.is_file() else None

    def plan(self, prediction: Mapping[str, Any]) -> Action | None:
        """What to do about a prediction; None where nothing is to be done. ValueError: its slots do not fit."""
        goal = prediction["goal"]
        if goal is None or goal not in self.goals or prediction["confidence"] < self.least_confidence:
            return None
        entry = self.goals[goal]
        places = PLACE.findall(" ".join(entry.get("run", [entry.get("open", "")])))
        _check_single(goal, [slot for slot in prediction["slots"] if "call" in entry or slot["name"] in places])
        slots = {name: str(value) for name, value in entry.get("defaults", {}).items()}
        slots |= {slot["name"]: slot["value"] for slot in prediction["slots"]}
        if "run" in entry:
            return Action(run=tuple(_argument(goal, word, slots) for word in entry["run"]))
        if "open" in entry:
            address = PLACE.sub(lambda place: _part(_slot(goal, place[1], slots)), entry["open"])
            return Action(open=address)
        return Action(call=entry["call"], slots=tuple(sorted(slots.items())))

    def described(self, prediction: Mapping[str, Any]) -> str | None:
        """For people: what would be done about a prediction, or why it is not."""
        try:
            action = self.plan(prediction)
        except ValueError as error:
            return f"none: {error}"
        return None if action is None else action.described()

    def act(self, action: Action, handlers: Mapping[str, Handler] | None = None, *, aside: bool = False) -> str:
        """Do it, and say how it went. OSError or ValueError where it could not be done.

        aside: what a program prints goes to standard error.
        """
        if action.run is not None:
            return _run(action.run, aside)
        if action.open is not None:
            return self._call(action.open)
        handler = (handlers or {}).get(action.call or "")
        if handler is None:
            raise ValueError(f"no function {action.call!r} is registered")
        handler(dict(action.slots))
        return "called"

    def _call(self, address: str) -> str:
        if not self._is_allowed(address):
            raise ValueError(f"{address} is not on the allow-list")
        try:
            # An empty table of proxies keeps the system's out.
            opener = build_opener(_NoRedirects, *([] if self.proxy else [ProxyHandler({})]))
            with opener.open(Request(address), timeout=SECONDS) as answer:  # noqa: S310
                return f"status {answer.status}"
        except HTTPException as error:
            raise OSError(f"{address} could not be called: {error}") from error

    def _is_allowed(self, address: str) -> bool:
        return any(address.startswith(beginning) for beginning in self.allow)


def _run(words: tuple[str, ...], aside: bool) -> str:
    try:
        done = subprocess.run(  # noqa: S603
            list(words), check=False, timeout=SECONDS, stdin=subprocess.DEVNULL, stdout=2 if aside else None
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{words[0]} did not end within {SECONDS:.0f} seconds and was stopped") from error
    if done.returncode:
        raise OSError(f"{words[0]} ended with exit code {done.returncode}")
    return "exit code 0"


class _NoRedirects(HTTPRedirectHandler):
    """An allowed address must not send us to another one."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        raise HTTPError(req.full_url, code, f"it redirects to {newurl}, which is not followed", headers, fp)


def _check(where: str, entry: Any, allow: list[str]) -> None:
    if not isinstance(entry, dict) or sum(way in entry for way in WAYS) != 1:
        raise ValueError(f"{where} must have exactly one of {', '.join(WAYS)}, got {shown(entry)}")
    strange = set(entry) - {*WAYS, "defaults"}
    if strange:
        raise ValueError(f"{where} has an unknown key {min(strange)!r}")
    if not isinstance(entry.get("defaults", {}), dict):
        raise ValueError(f"{where} defaults must be a table of slots, got {shown(entry['defaults'])}")
    if "run" in entry:
        words = entry["run"]
        if not isinstance(words, list) or not words or not all(isinstance(word, str) and word for word in words):
            raise ValueError(f"{where} run must be a list of a program and its arguments, got {shown(words)}")
        if PLACE.search(words[0]):
            raise ValueError(f"{where} run must name its program; a slot cannot, got {words[0]!r}")
        if PLACE.search(" ".join(words)) and (program := _runs_code(words)):
            raise ValueError(f"{where} run must not give a slot to {program}, which would run what the slot says")
    elif "open" in entry:
        beginning = PLACE.split(str(entry["open"]))[0]
        if not any(beginning.startswith(one) for one in allow):
            raise ValueError(f"{where} open must begin with an address of allow, got {shown(entry['open'])}")
    elif not isinstance(entry["call"], str) or not entry["call"]:
        raise ValueError(f"{where} call must name a function, got {shown(entry['call'])}")


def _is_beginning(address: str) -> bool:
    """With a whole host, so that http://localhost does not allow http://localhost.elsewhere."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    is_plain = "@" not in parts.netloc and "\\" not in address and not parts.fragment
    steps = unquote(parts.path).split("/")
    return (
        parts.scheme in ("http", "https")
        and bool(parts.hostname)
        and parts.path.startswith("/")
        and is_plain
        and not {".", ".."} & set(steps)
    )


def _runs_code(words: Sequence[str]) -> str | None:
    """The program among these words that runs what its arguments say: also behind env, sudo or nice."""
    names = [PurePath(word).name for word in words]
    if shell := next((name for name in names if name in SHELLS), None):
        return shell
    interpreter = next((name for name in names if re.sub(r"[0-9.]+$", "", name) in INTERPRETERS), None)
    return interpreter if interpreter and any(CODE_OPTIONS.fullmatch(word) for word in words) else None


def _check_single(goal: str, slots: Sequence[Mapping[str, Any]]) -> None:
    """Raise for a slot with two values: nobody knows which one is meant."""
    values: dict[str, str] = {}
    for slot in slots:
        if values.setdefault(slot["name"], slot["value"]) != slot["value"]:
            raise ValueError(
                f"{goal}: slot {slot['name']!r} is said twice: {values[slot['name']]!r}, {slot['value']!r}"
            )


def _argument(goal: str, word: str, slots: Mapping[str, str]) -> str:
    filled = PLACE.sub(lambda place: _slot(goal, place[1], slots), word)
    # A value must not become an option of the program.
    if filled.startswith("-") and not word.startswith("-"):
        raise ValueError(f"{goal}: an argument that begins with '-' is not passed on: {filled!r}")
    return filled


def _part(value: str) -> str:
    """One part of an address, which must not lead out of it."""
    if value in (".", ".."):
        raise ValueError(f"a part of an address that is {value!r} is not passed on")
    return quote(value, safe="")


def _slot(goal: str, name: str, slots: Mapping[str, str]) -> str:
    if name not in slots:
        raise ValueError(f"{goal}: the action needs slot {name!r}, which was not said and has no default")
    if "\0" in slots[name]:
        raise ValueError(f"{goal}: slot {name!r} has a character that no argument can hold")
    return slots[name]
