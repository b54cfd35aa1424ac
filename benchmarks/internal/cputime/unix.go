//go:build unix

// Package cputime says how long the processors have worked for this process.
package cputime

import (
	"syscall"
	"time"
)

// Used is the time that the processors have spent on this process.
func Used() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
