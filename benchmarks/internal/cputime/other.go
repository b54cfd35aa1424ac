//go:build !unix

// Package cputime reports the processor time of this process.
package cputime

import "time"

// Used returns 0 because this system is not supported.
func Used() time.Duration { return 0 }
