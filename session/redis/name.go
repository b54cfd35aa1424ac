package redis

import (
	"math"
	"net/url"
	"strconv"
	"strings"

	driver "github.com/redis/go-redis/v9"

	"github.com/agentarbor/arbor/session"
)

// streamName returns the key of a session's stream.
func streamName(prefix string, key session.Key) string {
	return prefix + ":{" + url.PathEscape(key.App) + "/" + url.PathEscape(key.User) + "/" + url.PathEscape(key.ID) + "}"
}

// before returns an id that all entries of a position, and later ones, come after.
func before(seq int64) string {
	if seq <= 0 {
		return "0-0"
	}
	return strconv.FormatInt(seq-1, 10) + "-" + strconv.FormatUint(math.MaxUint64, 10)
}

// lastID is the greatest id that there is. An entry of it wakes all who wait for
// any.
const lastID = "18446744073709551615-18446744073709551615"

// The fields of an entry.
const (
	fieldToken   = "t" // of the writer's lease
	fieldEvent   = "e" // a partial event
	fieldMark    = "m" // the id of the last stored event
	fieldLease   = "l" // the lease was taken
	fieldRelease = "z" // the lease was given back, and no block is open: where its turn began
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
	start   int64 // of a turn whose lease was given back
	deleted bool
}

// parseEntry reports false for an entry that is none of ours.
func parseEntry(m driver.XMessage) (entry, bool) {
	e := entry{id: m.ID}
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
