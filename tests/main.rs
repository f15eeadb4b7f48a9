//! One test binary: one file for each promise area, and the rig they share.
