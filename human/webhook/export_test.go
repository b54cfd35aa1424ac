package webhook

import (
	"time"

	"github.com/agentarbor/arbor/access"
)

// Quicken shortens the pauses between attempts.
func Quicken(d *Desk) { d.poster.First, d.poster.Most = time.Millisecond, 2*time.Millisecond }

// Hurry shortens the time that a body has to arrive.
func Hurry(d *Desk) {
	d.bodies, _ = access.New(access.Options{MaxBody: maxBody, BodyTimeout: 50 * time.Millisecond})
}
