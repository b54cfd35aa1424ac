//go:build !unix

// Package cputime says how long the processors have worked for this process.
package cputime

import "time"

// Used is not known here.
func Used() time.Duration { return 0 }
