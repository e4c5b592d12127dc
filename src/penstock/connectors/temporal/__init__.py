"""Temporal streams as inputs."""
