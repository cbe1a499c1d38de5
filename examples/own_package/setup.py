"""Builds the package with setuptools: with this file, MANIFEST.in, which puts the sources into an
sdist, and these lines in pyproject.toml

[build-system]
requires = ["setuptools", "pykernels[build]"]
build-backend = "setuptools.build_meta"
"""

from setuptools import setup
from setuptools.command.build_py import build_py

from pykernels.own import build_package


class BuildKernels(build_py):
    """Makes the kernels before the files of the package are collected."""

    def run(self) -> None:
        build_package("shaders", "five/_kernels")
        super().run()


setup(
    packages=["five"],
    package_data={"five": ["py.typed", "_kernels/**/*"]},
    cmdclass={"build_py": BuildKernels},
)
