"""What this process computes on."""

import tensorflow as tf


def has_accelerator() -> bool:
    """Whether TensorFlow sees anything but CPUs."""
    return any(device.device_type != 'CPU' for device in tf.config.list_physical_devices())
