"""Simulators in a Java virtual machine beside the process that plays."""
