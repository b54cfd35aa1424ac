package logpage

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/session"
)

// The default and the maximum number of events on a page, and its maximum size.
const defaultEvents, maxEvents, maxBytes = 500, 5000, 8 << 20

// Page is a page of the events of a log. It begins and ends between two writes of the log.
type Page struct {
	// Next and Previous are positions: the parameter after of the next page, and before of the previous one. "" is no
	// page.
	Next, Previous string

	shape       Shape
	filter      func(*event.Event) *event.Event
	store       session.Store
	key         session.Key
	first, last int64 // of all events that pages may contain
	limit       int
	align       bool
	events      [][]byte
	bytes       int
}

// Read returns the page of a query (limit, after, before, align) of the events of a log from first to last. It omits
// events for which filter returns nil.
func Read(ctx context.Context, store session.Store, key session.Key, first, last int64, query url.Values, shape Shape, filter func(*event.Event) *event.Event) (p *Page, err error) {
	p = &Page{shape: shape, filter: filter, store: store, key: key, first: first, last: last, align: query.Get("align") != ""}
	after, err := session.ParsePosition(query.Get("after"))
	if err != nil {
		return nil, err
	}
	if p.limit, err = front.Limit(query, defaultEvents, maxEvents); err != nil {
		return nil, err
	}
	if p.align && query.Get("align") != "turn" {
		return nil, front.BadRequest("align must be turn, not %.40q", query.Get("align"))
	}
	if query.Get("before") == "" {
		return p, p.forward(ctx, max(after.Seq, first-1))
	}
	before := last + 1
	if text := query.Get("before"); text != "end" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 || query.Get("after") != "" {
			return nil, front.BadRequest("before must be a position or end, and cannot be combined with after")
		}
		before = min(n, before)
	}
	return p, p.backward(ctx, before)
}

// NDJSON returns the events, one per line.
func (p *Page) NDJSON() []byte {
	return bytes.Join(append(p.events, nil), []byte{'\n'})
}

// JSON returns the page as an object.
func (p *Page) JSON() []byte {
	out := append(append([]byte(`{"events":[`), bytes.Join(p.events, []byte{','})...), ']')
	for _, to := range [][2]string{{"next", p.Next}, {"previous", p.Previous}} {
		if to[1] != "" {
			out = fmt.Appendf(out, `,"%s":"%s"`, to[0], to[1])
		}
	}
	return append(out, "}\n"...)
}

func (p *Page) full() bool { return len(p.events) >= p.limit || p.bytes >= maxBytes }

func (p *Page) add(e *event.Event) error {
	if e = p.filter(e); e == nil || !p.shape.Includes(e) {
		return nil
	}
	data, err := p.shape.Encode(e)
	p.events, p.bytes = append(p.events, data), p.bytes+len(data)
	return err
}

func startsTurn(e *event.Event) bool {
	_, ok := e.Data.(*event.User)
	return ok
}

func (p *Page) forward(ctx context.Context, after int64) error {
	if p.align {
		for e, err := range session.Backward(ctx, p.store, p.key, min(after, p.last)+2) {
			if err != nil {
				return err
			}
			if startsTurn(e) {
				after = e.Seq - 1
			}
			if startsTurn(e) || after-e.Seq > maxEvents {
				break
			}
		}
	}
	if after >= p.first {
		p.Previous = strconv.FormatInt(after+1, 10)
	}
	var seq int64
	var write time.Time
	for e, err := range p.store.Load(ctx, p.key, after) {
		switch {
		case err != nil:
			return err
		case e.Seq > p.last:
			return nil
		case p.full() && !e.Time.Equal(write):
			p.Next = strconv.FormatInt(seq, 10)
			return nil
		}
		if err := p.add(e); err != nil {
			return err
		}
		seq, write = e.Seq, e.Time
	}
	return nil
}

func (p *Page) backward(ctx context.Context, before int64) error {
	if before <= p.last {
		p.Next = strconv.FormatInt(before-1, 10)
	}
	var oldest *event.Event
	for e, err := range session.Backward(ctx, p.store, p.key, before) {
		if err != nil {
			return err
		}
		if e.Seq < p.first {
			break
		}
		if p.full() && !e.Time.Equal(oldest.Time) && (!p.align || startsTurn(oldest) || len(p.events) >= maxEvents || p.bytes >= maxBytes) {
			p.Previous = strconv.FormatInt(oldest.Seq, 10)
			break
		}
		if err := p.add(e); err != nil {
			return err
		}
		oldest = e
	}
	slices.Reverse(p.events)
	return nil
}
