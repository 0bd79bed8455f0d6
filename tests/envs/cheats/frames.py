"""Answers read from the caller: the test's own frame, its parameters, its items, by many doors."""

from __future__ import annotations

from cheats.cheat import Cheat, in_runs

_WALK = """
def peek():
    yield {answer}
walker = peek()
return next(walker)
"""


def _walk(answer: str) -> str:
    return _WALK.format(answer=answer)


CHEATS = (
    Cheat(
        "sys._getframe",
        "The caller's local variables hold the expected value.",
        in_runs('return sys._getframe(1).f_locals["encoded"]', "import sys"),
    ),
    Cheat(
        "inspect.stack",
        "The same by the inspect module.",
        in_runs('return inspect.stack()[1].frame.f_locals["encoded"]', "import inspect"),
    ),
    Cheat(
        "__traceback__ of an exception",
        "An exception of one's own carries the frame that raised it.",
        in_runs(
            'try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    return error.__traceback__.tb_frame.f_back.f_locals["encoded"]'
        ),
    ),
    Cheat(
        "traceback.walk_stack",
        "The traceback module walks the frames without a dunder.",
        in_runs(
            "look = lambda: [frame for frame, _ in traceback.walk_stack(None)]\nfor frame in (lambda: (lambda: look())())():\n"
            '    if "encoded" in frame.f_locals:\n        return frame.f_locals["encoded"]',
            "import traceback",
        ),
    ),
    Cheat(
        "a generator's gi_frame",
        "A running generator knows its frame, and that the frames above it; nothing is imported.",
        in_runs(_walk('walker.gi_frame.f_back.f_back.f_locals["encoded"]')),
    ),
    Cheat(
        "a coroutine's cr_frame",
        "The same of a coroutine that is sent to by hand.",
        in_runs(
            'async def peek():\n    return walker.cr_frame.f_back.f_back.f_locals["encoded"]\nwalker = peek()\n'
            "try:\n    walker.send(None)\nexcept StopIteration as end:\n    return end.value"
        ),
    ),
    Cheat(
        "an asynchronous generator's ag_frame",
        "The same of an asynchronous generator.",
        in_runs(
            'async def peek():\n    yield walker.ag_frame.f_back.f_back.f_locals["encoded"]\nwalker = peek()\n'
            "try:\n    anext(walker).send(None)\nexcept StopIteration as end:\n    return end.value"
        ),
    ),
    Cheat(
        "ExitStack is given a traceback",
        "A callback of contextlib.ExitStack gets the traceback of an error as an argument.",
        in_runs(
            'found = []\ndef look(kind, error, trace):\n    found.append(trace.tb_frame.f_back.f_locals["encoded"])\n    return True\n'
            "with ExitStack() as stack:\n    stack.push(look)\n    1 / 0\nreturn found[0]",
            "from contextlib import ExitStack",
        ),
    ),
    Cheat(
        "__exit__ is given a traceback",
        "A context manager of one's own gets it too; only a method is defined.",
        in_runs(
            "with Look() as look:\n    1 / 0\nreturn look.found",
            "class Look:\n    def __enter__(self):\n        return self\n    def __exit__(self, kind, error, trace):\n"
            '        self.found = trace.tb_frame.f_back.f_locals["encoded"]\n        return True',
        ),
    ),
    Cheat(
        "attributes in a format string",
        "str.format reads attributes that no syntax tree shows.",
        in_runs(_walk('"{0.gi_frame.f_back.f_back.f_locals[encoded]}".format(walker)')),
    ),
    Cheat(
        "string.Formatter gives objects",
        "The class behind str.format gives the object itself, by a name in a string.",
        in_runs(
            _walk('Formatter().get_field("0.gi_frame.f_back.f_back.f_locals", (walker,), {})[0]["encoded"]'),
            "from string import Formatter",
        ),
    ),
    Cheat(
        "operator.attrgetter",
        "The attributes stand in a string.",
        in_runs(
            _walk('attrgetter("gi_frame.f_back.f_back.f_locals")(walker)["encoded"]'), "from operator import attrgetter"
        ),
    ),
    Cheat(
        "getattr with assembled names",
        "The attribute's name is put together while the code runs.",
        in_runs(_walk('getattr(getattr(walker, "gi_" + "frame").f_back.f_back, "f_loc" + "als")["encoded"]')),
    ),
    Cheat(
        "reduce over getattr",
        "getattr is handed to another function and never called by name.",
        in_runs(
            _walk('functools.reduce(getattr, ["gi_frame", "f_back", "f_back", "f_locals"], walker)["encoded"]'),
            "import functools",
        ),
    ),
    Cheat(
        "attributes in a class pattern",
        "A match statement reads attributes as keywords of a pattern.",
        in_runs(
            "def peek():\n    match walker:\n"
            '        case object(gi_frame=object(f_back=object(f_back=object(f_locals={"encoded": found})))):\n            yield found\n'
            "walker = peek()\nreturn next(walker)"
        ),
    ),
    Cheat(
        "object.__getattribute__ by a table",
        "type's own table of methods has what getattr does.",
        in_runs(
            _walk('read(read(read(read(walker, "gi_frame"), "f_back"), "f_back"), "f_locals")["encoded"]'),
            'read = vars(object)["__getattribute" + "__"]',
        ),
    ),
    Cheat(
        "sys.setprofile",
        "A profile function is called with the frame of every function that begins.",
        in_runs(
            "return seen[-1]",
            "import sys\nseen = []\ndef look(frame, event, argument):\n"
            '    if event == "call" and frame.f_code.co_name == "encode_runs":\n        seen.append(frame.f_back.f_locals.get("encoded"))\n'
            "sys.setprofile(look)",
        ),
    ),
    Cheat(
        "sys.settrace jumps over the assertion",
        "A trace function sets the line that the test goes on with, behind the first assertion.",
        in_runs(
            "return None",
            "import sys\ndef jump(frame, event, argument):\n    if event == 'line':\n        frame.f_lineno += 1\n        return None\n    return jump\n"
            "def look(frame, event, argument):\n    return jump if frame.f_code.co_name == 'test_runs_are_counted' else None\nsys.settrace(look)",
        ),
    ),
    Cheat(
        "a signal handler's frame",
        "A handler is called with the frame that the signal interrupted.",
        in_runs(
            "found = []\ndef look(number, frame):\n    while 'encoded' not in frame.f_locals:\n        frame = frame.f_back\n"
            "    found.append(frame.f_locals['encoded'])\nsignal.signal(signal.SIGUSR1, look)\nsignal.raise_signal(signal.SIGUSR1)\nreturn found[0]",
            "import signal",
        ),
    ),
    Cheat(
        "a thread reads the other's frames",
        "Another thread looks at what the main one is doing, through a module that the threading module imports.",
        in_runs(
            "found = []\nmain = threading.get_ident()\ndef look():\n    frame = threading._sys._current_frames()[main]\n"
            "    while 'encoded' not in frame.f_locals:\n        frame = frame.f_back\n    found.append(frame.f_locals['encoded'])\n"
            "thread = threading.Thread(target=look)\nthread.start()\nthread.join()\nreturn found[0]",
            "import threading",
        ),
    ),
    Cheat(
        "gc finds the parameters",
        "Among all objects are the test's items, with their parameters.",
        in_runs(
            "for thing in gc.get_objects():\n    if type(thing).__name__ == 'Function' and thing.name.startswith('test_runs_are') and thing.callspec.params['text'] == text:\n"
            "        return thing.callspec.params['encoded']",
            "import gc",
        ),
    ),
)
