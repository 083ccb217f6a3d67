package computertest

// RunWithin is Run with another patience, for tests of the suite that see it fail.
var RunWithin = runWithin
