package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
)

// ErrUnreachable reports a server that does not answer, or that ended a connection.
var ErrUnreachable = errors.New("the server cannot be reached")

// Error is the server's answer to a request that it refuses (RFC 9457). errors.Is finds agent.ErrSessionBusy,
// agent.ErrConflict and agent.ErrBadInput in it, for the same reasons as in the errors of a runner.
type Error struct {
	Status     int    // the HTTP status
	Code       string // such as not_found; "" if the answer is not that of an Arbor server
	Detail     string // a sentence for people
	Instance   string // the id of the request in the server's log
	Problems   []struct{ Path, Message string }
	Seq        int64         // the end of the log, with the code position_moved
	RetryAfter time.Duration `json:"-"` // 0: unknown
}

func (e *Error) Error() string {
	text := e.Detail
	for _, p := range e.Problems {
		text += "; " + strings.TrimPrefix(p.Path+": "+p.Message, ": ")
	}
	return text
}

// Is implements the interface of errors.Is for errors of package agent.
func (e *Error) Is(target error) bool {
	busy, conflict := e.Code == "session_busy", slices.Contains([]string{"position_moved", "exists", "turn_over", "deleted"}, e.Code)
	bad := !busy && !conflict && (e.Code == "" || e.Status >= 400 && e.Status < 500 && e.Status != http.StatusTooManyRequests)
	return target == agent.ErrSessionBusy && busy || target == agent.ErrConflict && conflict || target == agent.ErrBadInput && bad
}

// temporary reports whether a retry may succeed.
func temporary(err error) bool {
	var refused *Error
	return errors.Is(err, ErrUnreachable) || errors.As(err, &refused) && slices.Contains([]int{429, 502, 503, 504}, refused.Status)
}

// readError returns the error of an answer.
func (c *Client) readError(resp *http.Response) *Error {
	e := &Error{}
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil || json.Unmarshal(data, e) != nil || e.Code == "" || e.Detail == "" {
		e = c.notArbor(resp)
	}
	e.Status = resp.StatusCode
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
		e.RetryAfter = time.Duration(min(s, 60)) * time.Second
	}
	return e
}

// notArbor returns the error of an answer that is not one of the API.
func (c *Client) notArbor(resp *http.Response) *Error {
	e := &Error{Status: resp.StatusCode, Detail: fmt.Sprintf("%s is not an Arbor server: %s", c.address, resp.Status)}
	if to := resp.Header.Get("Location"); to != "" {
		e.Detail += fmt.Sprintf(", to %.200s", to)
	}
	return e
}

// TurnError is the error of a turn that failed. errors.Is finds agent.ErrLimit in it if the turn reached a limit.
type TurnError struct {
	Code, Message string
	Retryable     bool
	limit         bool
}

func (e *TurnError) Error() string { return strings.TrimPrefix(e.Code+": "+e.Message, ": ") }

// Is implements the interface of errors.Is for errors of package agent.
func (e *TurnError) Is(target error) bool { return e.limit && target == agent.ErrLimit }
