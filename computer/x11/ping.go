package x11
