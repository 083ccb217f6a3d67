package main

import "runtime/debug"

// version is the version of the module that this binary was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "loupe (unversioned build)"
	}
	return "loupe " + info.Main.Version
}
