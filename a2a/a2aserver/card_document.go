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

// cardCache lets a client use a card for five minutes without asking again (A2A 1.0, section 8.6). After that, the
// answer for an unchanged card has no body.
const cardCache = "public, max-age=300"

// cardDocument is a card as it is sent. It is immutable.
type cardDocument struct {
	tree     *agent.Tree // the tree that it describes
	body     []byte
	etag     string // a strong tag of the body
	modified time.Time
}

func newCardDocument(body []byte, modified time.Time) *cardDocument {
	sum := sha256.Sum256(body)
	return &cardDocument{nil, body, `"` + base64.RawURLEncoding.EncodeToString(sum[:]) + `"`, modified}
}

// ServeHTTP answers GET and HEAD, the only methods that reach it, and answers 304 if the client has the current
// document. The card is public, so pages of every origin may read it, without cookies.
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

// cardDocuments caches the cards of a server by tenant. It renders a card at the first request and after a change of
// the tree. If the server does not know its public URL, it renders the card for each request, with the host of that
// request.
type cardDocuments struct {
	base     string                          // "" uses the host of the request
	tree     func(tenant string) *agent.Tree // the current tree of a tenant that exists
	render   func(tenant, base string) ([]byte, error)
	modified time.Time
	log      *slog.Logger

	mu   sync.Mutex
	docs map[string]*cardDocument
}

// newCardDocuments returns the documents that render makes for a tenant and a base URL. base is the public base URL, or
// "". If it is "", the card names the host of each request, which anyone may choose, so such a card must not be signed.
func newCardDocuments(base string, tree func(tenant string) *agent.Tree, render func(tenant, base string) ([]byte, error), log *slog.Logger) *cardDocuments {
	return &cardDocuments{
		base: strings.TrimSuffix(base, "/"), tree: tree, render: render, modified: time.Now(), log: log,
		docs: make(map[string]*cardDocument),
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
		c.log.Error("the agent card cannot be created", "tenant", tenant, "error", err)
		http.Error(w, "the agent card cannot be created", http.StatusInternalServerError)
		return
	}
	d.ServeHTTP(w, r)
}

func (c *cardDocuments) get(tenant, base string) (*cardDocument, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, tree := c.docs[tenant], c.tree(tenant)
	switch {
	case before == nil:
	case before.tree != tree:
		c.modified = time.Now()
	case c.base != "":
		return before, nil
	}
	body, err := c.render(tenant, base)
	if err != nil {
		return nil, err
	}
	d := newCardDocument(body, c.modified)
	d.tree = tree
	c.docs[tenant] = d
	return d, nil
}
