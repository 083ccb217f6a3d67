package desktest

import "syscall"

// endWithParent makes a program end with the test binary, also when that is killed and
// runs no cleanups.
func endWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
