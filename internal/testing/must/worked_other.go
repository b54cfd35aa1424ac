//go:build !linux

package must

import "time"

var began = time.Now()

// worked returns the time that has passed since the program's start.
func worked() time.Duration { return time.Since(began) }
