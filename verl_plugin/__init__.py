"""The only room that imports verl. verl loads it in each of its processes
(``VERL_USE_EXTERNAL_MODULES=verl_plugin``, or the entry-point group ``verl.plugins``), so nothing
heavy is imported here: one of verl's modules is changed, and gets our registrations, when it is
imported.
"""

from turngrid.verl_plugin.hooks import install

install()
