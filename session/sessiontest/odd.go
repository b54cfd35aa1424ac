package sessiontest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/agentarbor/arbor/event"
)

// OddEvents returns events for an empty session with the strangest ids, names, times and payloads that a log may
// contain. A store that keeps events in another form than their JSON must return them unchanged.
func OddEvents() (list []*event.Event) {
	add := func(data event.Data, change func(*event.Event)) {
		e := entry(int64(len(list)+1), data)
		e.ParentID, e.Path = "r0:harness_end", "front/support"
		change(e)
		list = append(list, e)
	}
	for _, data := range Payloads() {
		add(data, func(*event.Event) {})
	}
	for _, odd := range append([]string{"", " ", "a b", "{", "{}", "null", "a/b", "/", "a/", "é", "%s", "'", "$1", "[x]", "0", "-", "=", "~", "\x7f"}, slices.Sorted(maps.Values(difficult()))...) {
		if len(odd) > 1000 {
			continue
		}
		for i := range 7 {
			add(text(odd), func(e *event.Event) {
				*[]*string{&e.ID, &e.TurnID, &e.RunID, &e.Scope, &e.ParentID, &e.Agent, &e.Path}[i] = odd
			})
		}
		add(&event.Unknown{Type: "odd" + event.ValidText(odd)}, func(e *event.Event) { e.Agent, e.Path = odd, fmt.Sprint("front/", odd) })
	}
	for _, at := range []time.Time{{}, time.Unix(0, 0), time.Unix(0, 1), time.Unix(0, -1), time.Unix(1, 0), time.Unix(1, 120_000_000), time.Unix(951_782_400, 1e9-1),
		time.Date(1700, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2261, 12, 31, 23, 59, 59, 10, time.UTC), time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC), recorded.In(time.FixedZone("", 3600))} {
		add(text("time"), func(e *event.Event) { e.Time = at })
	}
	add(text("attempt"), func(e *event.Event) { e.Attempt = 2 })
	add(text("more"), func(e *event.Event) { e.More = true })
	add(text(""), func(e *event.Event) { *e = event.Event{Seq: e.Seq, Data: e.Data} })
	return list
}
