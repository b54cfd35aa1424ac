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

// maxFrame bounds a line of a stream, in bytes.
const maxFrame = 64 << 20

// errEnd is the end of a stream that has told all, or whose reader has left.
var errEnd = errors.New("the stream has ended")

// Follow yields what came in a session after an entry, "" being the beginning, and then what
// comes, until the context ends; its error is then the last that is yielded. Stored events come in
// order, each once, whatever becomes of the connection and the server. Deltas may be missing; what
// was shown of a text is completed by its whole event, or taken back by a discard.
func (c *Client) Follow(ctx context.Context, id, after string) iter.Seq2[session.Entry, error] {
	return c.follow(ctx, after, c.get("sessions", id, "events"))
}

// Watch is Follow for one turn: it ends without an error when the turn is over or waits for
// somebody, at once if that was seen already. [Client.Turn] says what it has come to.
func (c *Client) Watch(ctx context.Context, id, turn, after string) iter.Seq2[session.Entry, error] {
	return c.follow(ctx, after, c.get("sessions", id, "turns", turn, "events"))
}

func (c *Client) follow(ctx context.Context, after string, r *http.Request) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) {
		from, err := session.ParsePosition(after)
		seen, left := &shown{from: from, last: from}, false
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
				return show(seen.take(at, e))
			})
			seen.doubt()
		}
		if show(seen.settle(nil)) == nil && !left && !errors.Is(err, errEnd) {
			yield(session.Entry{}, err)
		}
	}
}

// stream reads one connection's stream to its end, which is an error in any case.
func (c *Client) stream(ctx context.Context, r *http.Request, take func(id, data string) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := fmt.Errorf("%w: %s: nothing came for %s", ErrUnreachable, c.address, c.silence)
	watch := time.AfterFunc(c.silence, func() { cancel(silent) }) // the server fills silences
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
		return c.stranger(resp)
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
			data = value // the server's are one line
		case in.Text() == "": // the frame is complete
			if kind == "end" {
				err = c.ending(data)
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
	return c.broken(ctx, cmp.Or(in.Err(), io.ErrUnexpectedEOF))
}

// ending is why the server has ended a stream.
func (c *Client) ending(data string) error {
	var why struct{ Reason string }
	_ = json.Unmarshal([]byte(data), &why) // whatever else it was, the stream can be asked for again
	switch why.Reason {
	case "turn":
		return errEnd
	case "deleted":
		return &Error{Status: http.StatusNotFound, Code: "deleted", Detail: "the session was deleted"}
	case "revoked":
		return &Error{Status: http.StatusUnauthorized, Code: "revoked", Detail: "the token is not valid any more"}
	}
	return fmt.Errorf("%w: %s: it is being stopped", ErrUnreachable, c.address)
}
