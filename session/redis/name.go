package redis

import (
	"math"
	"net/url"
	"strconv"
	"strings"

	driver "github.com/redis/go-redis/v9"

	"github.com/agentarbor/arbor/session"
)

// streamName returns the name of a session's stream.
func streamName(prefix string, key session.Key) string {
	return prefix + ":{" + url.PathEscape(key.App) + "/" + url.PathEscape(key.User) + "/" + url.PathEscape(key.ID) + "}"
}

// before returns an id that is smaller than the ids of all entries at a position.
func before(seq int64) string {
	if seq <= 0 {
		return "0-0"
	}
	return strconv.FormatInt(seq-1, 10) + "-" + strconv.FormatUint(math.MaxUint64, 10)
}

// lastID is the greatest possible id. An entry with this id wakes all waiting followers.
const lastID = "18446744073709551615-18446744073709551615"

// The fields of an entry.
const (
	fieldToken   = "t" // the token of the writer's lease
	fieldEvent   = "e" // a partial event
	fieldMark    = "m" // the id of the last stored event
	fieldLease   = "l" // the lease was acquired
	fieldRelease = "z" // the lease was released, and no block is open; the value is the position at which its turn started
	fieldDeleted = "d" // the session was deleted
)

// entry is an entry of a stream.
type entry struct {
	id      string
	at      session.Position
	token   int64
	event   string
	mark    string
	release bool
	start   int64 // the position at which the turn of a released lease started
	deleted bool
}

// parseEntry parses an entry. ok is false if no Tail wrote it.
func parseEntry(m driver.XMessage) (e entry, ok bool) {
	e = entry{id: m.ID}
	get := func(field string) string { s, _ := m.Values[field].(string); return s }
	if e.deleted = get(fieldDeleted) != ""; e.deleted {
		return e, true
	}
	var err error
	if e.at, err = session.ParsePosition(m.ID); err != nil || !strings.Contains(m.ID, "-") {
		return e, false
	}
	if e.token, err = strconv.ParseInt(get(fieldToken), 10, 64); err != nil {
		return e, false
	}
	e.event, e.mark = get(fieldEvent), get(fieldMark)
	e.start, err = strconv.ParseInt(get(fieldRelease), 10, 64)
	e.release = err == nil
	return e, true
}
