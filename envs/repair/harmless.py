"""Standard functions that any repair may import and name: they reach only their own data.

Left out on purpose, though they look harmless:

- ``functools.wraps`` and ``operator.attrgetter`` take the names of attributes as text;
- ``dataclasses.make_dataclass``, ``enum`` and ``type`` make classes from text;
- ``typing.get_type_hints`` and ``functools.singledispatch`` run annotations;
- ``contextlib`` can swallow a test's error.
"""

import builtins
import types

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
    " print"
    " property range repr reversed round set slice sorted staticmethod str sum super tuple zip NotImplemented Ellipsis"
)
_TYPES = {name: value for name, value in vars(builtins).items() if isinstance(value, type)}
ERRORS = frozenset(name for name, cls in _TYPES.items() if issubclass(cls, Exception))
RISKY_BUILTINS = frozenset(vars(builtins)) - frozenset(_FUNCTIONS.split()) - ERRORS

# Ways from an object to the interpreter: words that a repair may use neither as name nor attribute.
_WAYS = "builtins ctypes format_map gc importlib inspect mro pytest sys unittest"
_INSIDES = (types.FrameType, types.CodeType, types.TracebackType, types.GeneratorType, types.CoroutineType)
WAYS = frozenset(_WAYS.split()) | {
    name for cls in (*_INSIDES, types.AsyncGeneratorType) for name in vars(cls) if "_" in name.strip("_")
}
# Methods that any class may define: none of them decides what its objects are equal to, or contain.
METHODS = frozenset({"__init__", "__iter__", "__len__", "__next__", "__post_init__", "__repr__", "__str__"})
BASES = ERRORS | {"NamedTuple", "typing.NamedTuple", "object"}
# Keywords that change equality, how classes are made, and which attributes are copied.
KEYWORDS = frozenset({"assigned", "compare", "eq", "metaclass", "updated", None})  # None: ``**``, which may hide one
