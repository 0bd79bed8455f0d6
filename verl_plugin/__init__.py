"""The only package that imports verl, apart from benchmarks and tests.

verl loads it in each of its processes (``VERL_USE_EXTERNAL_MODULES=turngrid.verl_plugin``, or the
entry-point group ``verl.plugins``), so nothing heavy is imported here. A module of verl is changed,
and our classes are registered with it, right after it is imported.
"""

from turngrid.envs.utils import stacks
from turngrid.verl_plugin.changes import install

stacks.register()
install()
