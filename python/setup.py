"""The reader is the repository's own, results/*.py: it is packed, not copied, so that there is one."""

from setuptools import setup
from setuptools.command.build_py import build_py

READER = ("load", "lines", "shape", "streams", "spread")


class reader_only(build_py):
    """Of results/ what reads."""

    def find_package_modules(self, package, package_dir):
        found = super().find_package_modules(package, package_dir)
        return [module for module in found if package != "umbench_records.reader" or module[1] in READER]


setup(packages=["umbench_records", "umbench_records.reader"], package_dir={"umbench_records.reader": "../results"},
      package_data={"umbench_records.reader": ["record.schema.json", "machines/*.json"]}, cmdclass={"build_py": reader_only})
