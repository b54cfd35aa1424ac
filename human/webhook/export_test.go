package webhook

import (
	"time"

	"github.com/agentarbor/arbor/server/access"
)

// Pause sets the pauses between attempts.
func Pause(d *Desk, pause time.Duration) { d.poster.First, d.poster.Most = pause, 2*pause }

// Hurry shortens the time that a body has to arrive.
func Hurry(d *Desk) {
	d.bodies, _ = access.New(access.Options{MaxBody: maxBody, BodyTimeout: 50 * time.Millisecond})
}
