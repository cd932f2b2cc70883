"""The package for pip and for colcon (build type ament_python)."""

import platform
import re
from glob import glob
from pathlib import Path

from setuptools import Extension, find_packages, setup

NAME = "poam_ros"
NODES = ("mapper", "planner", "simulator", "monitor")
HERE = Path(__file__).parent
INIT = (HERE / NAME / "__init__.py").read_text(encoding="utf-8")
README = HERE / "README.md"

# Lower bounds only, and no ROS: pip must leave a ROS installation as it is.
REQUIRED = [
    "gpytorch>=1.11", "numpy>=1.24", "pyyaml>=5.4", "scipy>=1.8", "shapely>=2.0",
    "threadpoolctl>=3.0", "torch>=2.0",
]  # fmt: skip
SIM = ["matplotlib>=3.7", "rich>=13.0"]
# The wheels of ROS 2 Jazzy on PyPI. A machine with ROS 2 installed must not ask for this extra.
ROS = [
    "ros-rclpy[fastrtps]==7.1.*", "ros-builtin-interfaces==2.0.*", "ros-diagnostic-msgs==5.3.*",
    "ros-geometry-msgs==5.3.*", "ros-lifecycle-msgs==2.0.*", "ros-nav-msgs==5.3.*",
    "ros-rcl-interfaces==2.0.*", "ros-rosgraph-msgs==2.0.*", "ros-sensor-msgs==5.3.*",
    "ros-std-msgs==5.3.*", "ros-std-srvs==5.3.*", "ros-visualization-msgs==5.3.*",
]  # fmt: skip
BENCHMARK = ["distributed>=2023.1", *SIM]
# rasterio writes GeoTIFF and BAG, pyproj projects, matplotlib draws the picture, pyogrio reads and
# writes polygons and lines.
GEO = ["rasterio>=1.3", "matplotlib>=3.7", "pyproj>=3.3", "pyogrio>=0.7"]
# `poam view`, and the page to mail.
VIEW = ["bokeh>=3.4"]
# Besides pytest, what reads exports back. Newer geopandas and pandas would bring
# NumPy 2 to a ROS of NumPy 1.
TEST = [
    "hypothesis>=6.80", "pytest>=7.4", "pytest-xdist>=3.5", "h5py>=3.8", "netCDF4>=1.6",
    "geopandas>=0.14,<1.2", "pandas>=2.0,<3",
]  # fmt: skip
DOCS = ["mkdocs>=1.6", "mkdocs-material>=9.5", "mkdocstrings[python]>=0.26"]
DEV = [
    "ruff>=0.15", "mypy>=1.11", "import-linter>=2.15", "colcon-common-extensions>=0.3",
    "catkin-pkg>=1.0",
]  # fmt: skip

# Plain C that is called through ctypes, built once for each kind of processor; loader.py chooses.
# Optional: without a compiler torch does the same, slower. ``contract``: whether products and sums
# may be fused; distances that tie must tie as they do in NumPy.
FLAGS = ["-O3", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math"]
PROCESSORS = {2: []}  # by the doubles in a vector: SSE2, NEON
if platform.machine() in ("x86_64", "AMD64"):
    PROCESSORS |= {4: ["-mavx2", "-mfma"]}
    PROCESSORS |= {8: [*PROCESSORS[4], "-mavx512f", "-mavx512dq", "-mavx512vl"]}
NATIVE = [
    Extension(
        f"{NAME}.models.native._{source}_{lanes}",
        sources=[f"{NAME}/models/native/{source}.c"],
        depends=glob(f"{NAME}/models/native/*.h"),
        extra_compile_args=[*FLAGS, f"-ffp-contract={contract}", f"-DLANES={lanes}", *flags],
        optional=True,
    )
    for source, contract in (
        ("attentive", "fast"),
        ("search", "off"),
        ("conditional", "fast"),
        ("network", "fast"),
        ("hypotheses", "off"),
    )
    for lanes, flags in PROCESSORS.items()
]

setup(
    name=NAME,
    version=re.search(r'^__version__ = "(.+)"$', INIT, re.MULTILINE).group(1),
    description="Bathymetric maps from a single-beam sonar, which choose where to measure next",
    long_description=README.read_text(encoding="utf-8") if README.exists() else "",
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    maintainer="poam_ros maintainers",
    maintainer_email="maintainers@poam-ros.example.org",
    url="https://arxiv.org/abs/2406.03669",  # the paper: the package has no public home yet
    keywords=["ROS 2", "Gaussian process", "bathymetry", "informative planning"],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: C",
        "Programming Language :: Python :: 3 :: Only",
        *(f"Programming Language :: Python :: 3.{minor}" for minor in range(10, 15)),
        "Topic :: Scientific/Engineering :: Hydrology",
        "Topic :: Scientific/Engineering :: GIS",
        "Typing :: Typed",
    ],
    packages=find_packages(include=[NAME, f"{NAME}.*"]),
    package_data={NAME: ["py.typed", "ros/*.xml"]},
    python_requires=">=3.10",
    install_requires=REQUIRED,
    ext_modules=NATIVE,
    extras_require={
        "sim": SIM,
        "benchmark": BENCHMARK,
        "geo": GEO,
        "geotiff": ["rasterio>=1.3"],
        "bags": ["rosbags>=0.10", "mcap>=1.1"],
        "nmea": ["pynmeagps>=1.0"],
        "mavlink": ["pymavlink>=2.4.40", "pyproj>=3.3", "pyserial>=3.5"],
        "download": ["pooch>=1.7"],
        "view": VIEW,
        "ros": ROS,
        "test": TEST,
        "dev": DEV,
        "docs": DOCS,
    },
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
        (f"share/{NAME}/launch", sorted(glob("launch/*.launch.py"))),
        (f"share/{NAME}/config", sorted(glob("config/*.*"))),
        (f"share/{NAME}/config/presets", sorted(glob("config/presets/*.yaml"))),
    ],
    entry_points={
        "console_scripts": [
            *(f"{node} = {NAME}.app.cli:{node}" for node in NODES),
            f"poam = {NAME}.app.cli:main",
        ],
    },
    zip_safe=False,
)
