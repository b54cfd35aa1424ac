package a2aserver

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/agentarbor/arbor/a2a/internal/wire"
	"github.com/agentarbor/arbor/agent"
)

const (
	// cardCache says for how long a client need not ask again (A2A 1.0, section 8.6).
	// After that, an unchanged card costs an answer without a body.
	cardCache = "public, max-age=300"
	// maxCardHosts is for how many hosts cards are kept.
	maxCardHosts = 64
)

// cardDocument is a card as it is sent. It is immutable.
type cardDocument struct {
	tree     *agent.Tree // that it describes
	body     []byte
	etag     string // strong, of the body
	modified time.Time
}

func newCardDocument(body []byte, modified time.Time) *cardDocument {
	sum := sha256.Sum256(body)
	return &cardDocument{nil, body, `"` + base64.RawURLEncoding.EncodeToString(sum[:]) + `"`, modified}
}

// ServeHTTP answers GET and HEAD, the only methods that come here, with 304 to whoever has the document already.
// The card is public, so that pages of any origin may read it, without cookies.
func (d *cardDocument) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Expose-Headers", "ETag")
	h.Set("Cache-Control", cardCache)
	h.Set("Content-Type", "application/json")
	h.Set("ETag", d.etag)
	h.Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(w, r, "", d.modified, bytes.NewReader(d.body))
}

// cardDocuments has the cards of a server by tenant, and, if the server does not
// know its public URL, by the host that is asked for them. They are made when
// they are first asked for.
type cardDocuments struct {
	base     string                          // "" takes that of the request
	tree     func(tenant string) *agent.Tree // of a tenant that exists, as it is now
	render   func(tenant, base string) ([]byte, error)
	modified time.Time
	log      *slog.Logger

	mu   sync.Mutex
	docs map[cardPlace]*cardDocument
	last []cardPlace // as they were made
}

type cardPlace struct{ tenant, base string }

// newCardDocuments takes what makes the card of a tenant's tree for a base URL, and the
// public base URL if there is one. Without it, the card names the host of each
// request, which a stranger may have chosen: a card like this must not be signed.
func newCardDocuments(base string, tree func(tenant string) *agent.Tree, render func(tenant, base string) ([]byte, error), log *slog.Logger) *cardDocuments {
	return &cardDocuments{
		base: strings.TrimSuffix(base, "/"), tree: tree, render: render, modified: time.Now(), log: log,
		docs: make(map[cardPlace]*cardDocument),
	}
}

// serve answers with the card of a tenant that exists.
func (c *cardDocuments) serve(w http.ResponseWriter, r *http.Request, tenant string) {
	base, err := c.base, error(nil)
	if base == "" {
		if base, err = wire.RequestBase(r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	d, err := c.get(tenant, base)
	if err != nil {
		c.log.Error("the agent card cannot be made", "tenant", tenant, "error", err)
		http.Error(w, "the agent card cannot be made", http.StatusInternalServerError)
		return
	}
	d.ServeHTTP(w, r)
}

func (c *cardDocuments) get(tenant, base string) (*cardDocument, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, tree, modified := cardPlace{tenant, base}, c.tree(tenant), c.modified
	before := c.docs[at]
	switch {
	case before == nil:
	case before.tree == tree:
		return before, nil
	default:
		modified = time.Now()
	}
	body, err := c.render(tenant, base)
	if err != nil {
		return nil, err
	}
	d := newCardDocument(body, modified)
	d.tree = tree
	if before != nil {
		c.docs[at] = d
		return d, nil
	}
	if c.base == "" && len(c.last) >= maxCardHosts {
		delete(c.docs, c.last[0])
		c.last = c.last[1:]
	}
	c.docs[at], c.last = d, append(c.last, at)
	return d, nil
}
