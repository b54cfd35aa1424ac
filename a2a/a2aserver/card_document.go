package a2aserver

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"time"

	"github.com/agentarbor/arbor/a2a/internal/cardjson"
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

// serveCard answers with the card of a tenant that exists. If the server does not know its public URL, the card names the
// host of the request, which anyone may choose, so such a card is never signed.
func (s *Server) serveCard(w http.ResponseWriter, r *http.Request, tenant string) {
	base := s.publicURL()
	if base == "" {
		var err error
		if base, err = wire.RequestBase(r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	d, err := s.trees[tenant].cardDocument(base)
	if err != nil {
		s.logger.Error("the agent card cannot be created", "tenant", tenant, "error", err)
		http.Error(w, "the agent card cannot be created", http.StatusInternalServerError)
		return
	}
	d.ServeHTTP(w, r)
}

// cardDocument returns the card of the tree. It renders the card at the first request and after a change of the tree, and
// without a public URL for each request.
func (s *served) cardDocument(base string) (*cardDocument, error) {
	s.documentMu.Lock()
	defer s.documentMu.Unlock()
	tree, modified := s.turns.Runner().Tree(), time.Now()
	if d := s.document; d != nil && d.tree == tree {
		if s.base != nil {
			return d, nil
		}
		modified = d.modified
	}
	body, err := s.renderCard(s.tenant, base)
	if err != nil {
		return nil, err
	}
	s.document = newCardDocument(body, modified)
	s.document.tree = tree
	return s.document, nil
}

// renderCard returns the JSON of a card for its well-known path: for clients of protocol 0.3 as well if the server serves
// them, and signed if there is a signer.
func (s *Server) renderCard(tenant, base string) ([]byte, error) {
	card, err := s.cardAt(tenant, base)
	if err != nil {
		return nil, err
	}
	write := cardjson.Marshal
	if s.compat != nil {
		write = s.compat.Card
	}
	doc, err := write(card)
	if err == nil && s.card.Signer != nil {
		doc, err = s.card.Signer.SignJSON(doc)
	}
	if err != nil {
		return nil, fmt.Errorf("a2aserver: the card cannot be written: %w", err)
	}
	return doc, nil
}
