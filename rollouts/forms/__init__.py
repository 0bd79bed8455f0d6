"""Rollout forms of a group (``rollout_form=``, docs/methods.md): one module each."""
