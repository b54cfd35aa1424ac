package webhook

import "time"

// Quicken shortens the pauses between attempts.
func Quicken(d *Desk) { d.poster.First, d.poster.Most = time.Millisecond, 2*time.Millisecond }
