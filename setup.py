"""What pyproject.toml can't say: the folder configs/ travels as a package."""

import setuptools

setuptools.setup(
    packages=[
        *setuptools.find_packages(include=['neg_contrast', 'neg_contrast.*']),
        'neg_contrast.configs',
    ],
    package_dir={'neg_contrast.configs': 'configs'},
)
