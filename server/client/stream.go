package client

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/session"
)

// maxFrame is the limit of a line of a stream, in bytes.
const maxFrame = 64 << 20

// errEnd reports a stream that is complete, or whose consumer has stopped.
var errEnd = errors.New("the stream has ended")

// Follow yields the entries of a session after an entry, or all entries if after is "", and then new entries until the
// context ends. The last value is then the context's error. Follow yields each stored event once and in order, also if
// the connection is lost or the server restarts. Deltas may be lost: the complete event of a text then follows the deltas
// that were yielded, or a discard event takes them back.
func (c *Client) Follow(ctx context.Context, id, after string) iter.Seq2[session.Entry, error] {
	return c.follow(ctx, after, c.get("sessions", id, "events"))
}

// Watch is [Client.Follow] for one turn. It ends without an error when the turn has ended or waits; if that was before
// after, at once. See [Client.Turn] for the state of the turn.
func (c *Client) Watch(ctx context.Context, id, turn, after string) iter.Seq2[session.Entry, error] {
	return c.follow(ctx, after, c.get("sessions", id, "turns", turn, "events"))
}

func (c *Client) follow(ctx context.Context, after string, r *http.Request) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		from, err := session.ParsePosition(after)
		seen, left := &seen{from: from, last: from}, false
		show := func(entries []session.Entry) error {
			for _, e := range entries {
				if left = left || !yield(e, nil); left {
					return errEnd
				}
			}
			return nil
		}
		for away := (outage{c: c}); err == nil; err = away.wait(ctx, err) {
			if seen.from != (session.Position{}) {
				r.Header.Set("Last-Event-ID", seen.from.String())
			}
			err = c.stream(ctx, r, func(id, data string) error {
				away = outage{c: c}
				e := &event.Event{}
				at, err := session.ParsePosition(id)
				if err == nil {
					err = json.Unmarshal([]byte(data), e)
				}
				if err != nil {
					return fmt.Errorf("the stream has an event that cannot be read: %w", err)
				}
				return show(seen.add(at, e))
			})
			seen.disconnected()
		}
		if show(seen.retract(nil)) == nil && !left && !errors.Is(err, errEnd) {
			yield(session.Entry{}, err)
		}
	}
}

// stream reads the stream of one connection. It always returns an error, which is the reason why the stream ended.
func (c *Client) stream(ctx context.Context, r *http.Request, take func(id, data string) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := fmt.Errorf("%w: %s: nothing came for %s", ErrUnreachable, c.address, c.silence)
	watch := time.AfterFunc(c.silence, func() { cancel(silent) }) // the server sends comments during silence
	defer watch.Stop()
	r.Header.Set("Accept", "text/event-stream")
	resp, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNoContent:
		return errEnd
	case !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream"):
		return c.notArbor(resp)
	}
	in := bufio.NewScanner(resp.Body)
	in.Buffer(nil, maxFrame)
	for id, kind, data := "", "", ""; in.Scan(); {
		watch.Reset(c.silence)
		name, value, _ := strings.Cut(in.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case name == "id":
			id = value
		case name == "event":
			kind = value
		case name == "data":
			data = value // the server sends data in one line
		case in.Text() == "": // the frame is complete
			if kind == "end" {
				err = c.endOf(data)
			} else if kind == "" && data != "" {
				err = take(id, data)
			}
			if id, kind, data = "", "", ""; err != nil {
				return err
			}
		}
	}
	if err := in.Err(); errors.Is(err, bufio.ErrTooLong) {
		return err
	}
	return c.connectionError(ctx, cmp.Or(in.Err(), io.ErrUnexpectedEOF))
}

// endOf returns the error for the reason why the server ended a stream.
func (c *Client) endOf(data string) error {
	var why struct{ Reason string }
	_ = json.Unmarshal([]byte(data), &why) // after an unknown reason the client asks for the stream again
	switch why.Reason {
	case "turn":
		return errEnd
	case "deleted":
		return &Error{Status: http.StatusNotFound, Code: "deleted", Detail: "the session was deleted"}
	case "revoked":
		return &Error{Status: http.StatusUnauthorized, Code: "revoked", Detail: "the token is no longer valid"}
	}
	return fmt.Errorf("%w: %s: the server is being stopped", ErrUnreachable, c.address)
}
