# The nodes beside ROS 2 Jazzy, for x86-64 and 64-bit Arm. docs/install.md says how to run it.
FROM ros:jazzy-ros-base

# The small build of torch, without CUDA.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu

WORKDIR /ws
COPY package.xml src/poam_ros/

# ROS packages by rosdep; Python packages by pip, beside the system's NumPy, which ROS was built with.
# hadolint ignore=DL3008,DL3013
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev python3-dev python3-venv \
    && rosdep update --rosdistro "$ROS_DISTRO" \
    && rosdep install --from-paths src --ignore-src -y --dependency-types exec --skip-keys \
        "python3-torch python3-scipy python3-shapely python3-matplotlib python3-rich python3-rasterio" \
    && rm -rf /var/lib/apt/lists/* \
    && python3 -m venv --system-site-packages .venv \
    && .venv/bin/pip install --no-cache-dir torch --index-url "$TORCH_INDEX" \
    && .venv/bin/pip install --no-cache-dir gpytorch threadpoolctl scipy shapely matplotlib rich rasterio

COPY . src/poam_ros/

# colcon under this Python, so that the executables run in its environment.
# hadolint ignore=SC1090,SC1091
RUN . "/opt/ros/$ROS_DISTRO/setup.sh" && .venv/bin/python -m colcon build

# The image's user without privileges. What runs leave is written to /data, usually a volume.
RUN mkdir /data && chown 1000:1000 /data
USER 1000:1000
WORKDIR /data
ENV PATH=/ws/install/poam_ros/lib/poam_ros:$PATH

ENTRYPOINT ["/bin/bash", "-c", ". /ws/install/setup.bash && exec \"$@\"", "--"]
CMD ["ros2", "launch", "poam_ros", "robot.launch.py"]
