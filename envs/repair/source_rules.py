"""Which Python a repair may contain: read as a syntax tree before any of it runs.

Tests and the code under test share one process, so code that names the interpreter's insides could
pay itself. A repair may use what the file used before, what the reference repair uses, and what is
listed here: standard functions that reach only their own data. Anything more is refused.

Left out on purpose, though they look harmless:

- ``functools.wraps`` and ``operator.attrgetter`` take the names of attributes as text, and so does
  ``str.format``;
- ``dataclasses.make_dataclass``, ``enum`` and ``type`` make classes from text;
- ``typing.get_type_hints`` and ``functools.singledispatch`` run annotations;
- ``contextlib`` can swallow a test's error.
"""

import ast
import builtins
import io
import re
import tokenize
import types
import warnings
from collections import ChainMap, Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

_NAMES = {
    "__future__": "annotations",
    "bisect": "bisect bisect_left bisect_right insort insort_left insort_right",
    "calendar": "isleap leapdays monthcalendar monthrange weekday",
    "collections": "ChainMap Counter OrderedDict defaultdict deque namedtuple",
    "collections.abc": "Callable Collection Container Generator Hashable ItemsView Iterable Iterator KeysView Mapping"
    " MutableMapping MutableSequence MutableSet Reversible Sequence Set Sized ValuesView",
    "copy": "copy deepcopy",
    "dataclasses": "asdict astuple dataclass field replace",
    "datetime": "MAXYEAR MINYEAR UTC date datetime time timedelta timezone",
    "decimal": "ROUND_CEILING ROUND_DOWN ROUND_FLOOR ROUND_HALF_DOWN ROUND_HALF_EVEN ROUND_HALF_UP ROUND_UP Decimal"
    " InvalidOperation",
    "fractions": "Fraction",
    "functools": "cache cached_property cmp_to_key lru_cache partial reduce total_ordering",
    "heapq": "heapify heappop heappush heappushpop heapreplace merge nlargest nsmallest",
    "itertools": "accumulate chain combinations combinations_with_replacement compress count cycle dropwhile"
    " filterfalse groupby islice pairwise permutations product repeat starmap takewhile tee zip_longest",
    "math": "ceil comb copysign cos dist e erf exp factorial fabs floor fmod frexp fsum gamma gcd hypot inf isclose"
    " isfinite isinf isnan isqrt lcm ldexp lgamma log log10 log1p log2 modf nan perm pi pow prod sin sqrt tan"
    " tau trunc",
    "operator": "add and_ eq floordiv ge gt itemgetter le lt mod mul ne neg not_ or_ pow sub truediv xor",
    "re": "A ASCII DOTALL I IGNORECASE M MULTILINE Match Pattern S VERBOSE X compile error escape findall finditer"
    " fullmatch match search split sub subn",
    "statistics": "fmean mean median median_high median_low mode multimode pstdev pvariance stdev variance",
    "string": "ascii_letters ascii_lowercase ascii_uppercase digits hexdigits octdigits punctuation whitespace",
    "textwrap": "dedent fill indent shorten wrap",
    "typing": "Any Callable ClassVar Final Generic Iterable Iterator Literal Mapping NamedTuple Optional Protocol Self"
    " Sequence TypeVar Union cast overload",
}
MODULES = {module: frozenset(names.split()) for module, names in _NAMES.items()}

_FUNCTIONS = (
    "abs all any ascii bin bool bytearray bytes callable chr classmethod complex dict divmod enumerate filter float"
    " format frozenset hasattr hash hex int isinstance issubclass iter len list map max min next object oct ord pow"
    " print property range repr reversed round set slice sorted staticmethod str sum super tuple zip"
    " NotImplemented Ellipsis"
)
_TYPES = {name: value for name, value in vars(builtins).items() if isinstance(value, type)}
_ERRORS = frozenset(name for name, kind in _TYPES.items() if issubclass(kind, Exception))
_RISKY_BUILTINS = frozenset(vars(builtins)) - frozenset(_FUNCTIONS.split()) - _ERRORS

# Attributes: of the listed modules, and of plain data.
_DATA = (
    *(str, bytes, bytearray, list, tuple, dict, set, frozenset, int, float, complex, range, slice),
    *(deque, Counter, OrderedDict, defaultdict, ChainMap, datetime, timedelta, Decimal, Fraction, re.Pattern, re.Match),
)
_ATTRIBUTES = (
    frozenset(name for kind in _DATA for name in dir(kind) if not name.startswith("_"))
    .union(*MODULES.values(), ("abc", "args", "setter"))
    .difference(("format", "format_map"))
)
# Ways from an object to the interpreter: words that no identifier may be.
_INSIDES = (types.FrameType, types.CodeType, types.TracebackType, types.GeneratorType, types.CoroutineType)
_MACHINERY = ("builtins", "ctypes", "format_map", "gc", "importlib", "inspect", "mro", "pytest", "sys", "unittest")
_WAYS = {*_MACHINERY} | {
    name for kind in (*_INSIDES, types.AsyncGeneratorType) for name in vars(kind) if "_" in name.strip("_")
}
# Methods that any class may define: none of them decides what its objects are equal to, or contain.
_METHODS = frozenset({"__init__", "__iter__", "__len__", "__next__", "__post_init__", "__repr__", "__str__"})
_BASES = _ERRORS | {"NamedTuple", "typing.NamedTuple", "object"}
# Keywords that change equality, how classes are made, and which attributes are copied.
_KEYWORDS = frozenset({"assigned", "compare", "eq", "metaclass", "updated"})

_WORDS = {
    "import": "a repair may not have `{}`",
    "name": "a repair may not use {}",
    "attribute": "a repair may not use the attribute {}",
    "dunder": "a repair may not add {}",
    "assignment": "a repair may not assign to {}",
    "class": "a repair may not add {}",
}


class Refusal(NamedTuple):
    """Why a repair is refused.

    Attributes:
        reason: ``syntax``, ``import``, ``name``, ``attribute``, ``dunder``, ``assignment`` or
            ``class`` here, ``file`` in ``workspace``; counted in ``rollout/refused/REASON``.
        message: what the agent reads.
    """

    reason: str
    message: str


class Use(NamedTuple):
    """Something that a file may have only if it had it before; ``what``: its source."""

    reason: str
    what: str


def refusal(path: str, text: str, known: Iterable[str]) -> Refusal | None:
    """Return why ``text`` may not become the file ``path``; None if it may.

    Args:
        known: texts of that file before and in the reference repair; what they use is allowed.
    """
    try:
        found = _uses(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return Refusal("syntax", f"{path} cannot be read: {type(error).__name__}")
    allowed = {use for one in known for use in _known_uses(one)} if found else set()
    for use, line in found.items():
        if use not in allowed:
            return Refusal(use.reason, f"{path} line {line}: {_WORDS[use.reason].format(use.what)}")
    return None


def _known_uses(text: str) -> Iterable[Use]:
    try:
        return _uses(text)
    except (SyntaxError, ValueError):
        return ()


def _uses(text: str) -> dict[Use, int]:
    """Return each use in a file that is not listed here, with its first line."""
    data = text.encode()
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    if encoding not in ("utf-8", "utf-8-sig"):
        raise SyntaxError("another encoding than UTF-8")
    nodes = list(ast.walk(parsed(data)))
    imported = {alias.asname or alias.name.split(".")[0] for alias in nodes if isinstance(alias, ast.alias)}
    classes = {node.name for node in nodes if isinstance(node, ast.ClassDef)}
    found: dict[Use, int] = {}
    for node in nodes:
        for use in (*_of_words(node), *_of_node(node, imported, classes)):
            found.setdefault(use, getattr(node, "lineno", 1))
    return found


def parsed(source: str | bytes) -> ast.Module:
    """Return the tree of a module, without warnings.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: it is not Python.
    """
    with warnings.catch_warnings(action="ignore"):
        return ast.parse(source)


def _of_words(node: ast.AST) -> Iterator[Use]:
    """Yield the identifiers in a node itself that lead to the interpreter or change equality."""
    if isinstance(node, ast.Constant) or (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
        return
    for _, value in ast.iter_fields(node):
        words = value if isinstance(value, list) else [value]
        for word in (part for text in words if isinstance(text, str) for part in text.split(".")):
            if word in _WAYS:
                yield Use("name", word)
            elif word.startswith("__") and word not in _METHODS:
                yield Use("dunder", word)


def _of_node(node: ast.AST, imported: set[str], classes: set[str]) -> Iterator[Use]:
    match node:
        case ast.Import(names=names):
            yield from (Use("import", f"import {ast.unparse(alias)}") for alias in names if alias.name not in MODULES)
        case ast.ImportFrom(module=module, names=names, level=level):
            source = "." * level + (module or "")
            unlisted = [alias for alias in names if alias.name not in MODULES.get(source, ())]
            yield from (Use("import", f"from {source} import {ast.unparse(alias)}") for alias in unlisted)
        case ast.Name(id=name) if name in _RISKY_BUILTINS:
            yield Use("name", name)
        case ast.Attribute(value=value, attr=attribute, ctx=context):
            if not isinstance(context, ast.Load) and _names(value) & imported:
                yield Use("assignment", ast.unparse(node))
            if attribute not in _ATTRIBUTES and not attribute.startswith("__"):
                yield Use("attribute", attribute)
        case ast.MatchClass(kwd_attrs=attributes):
            yield from (Use("attribute", name) for name in attributes if name not in _ATTRIBUTES)
        case ast.keyword(arg=word, value=value) if word in _KEYWORDS:
            yield Use("dunder", f"{word}={ast.unparse(value)}")
        case ast.ClassDef(name=name, bases=bases):  # a subclass of int or str could equal anything
            unlisted_bases = {ast.unparse(base) for base in bases} - _BASES - classes
            yield from (Use("class", f"class {name}({base})") for base in sorted(unlisted_bases))


def _names(node: ast.expr) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
