package cardsign

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/cryptosigner"

	"github.com/agentarbor/arbor/a2a/internal/cardjson"
	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/internal/plainjson"
)

// Signer signs agent cards with one key. It is immutable and safe for concurrent
// use.
type Signer struct {
	key Key
	jws jose.Signer
}

// SignerOption sets a field in the header of a signer's signatures.
type SignerOption func(*signerConfig)

type signerConfig struct {
	kid, jku string
}

// WithKeyID sets the key id in signatures. Defaults to the thumbprint of the key (RFC 7638).
func WithKeyID(id string) SignerOption { return func(c *signerConfig) { c.kid = id } }

// WithKeySetURL sets the https address of a key set with the public key, such as one of [KeySet]. Without this option,
// signatures name no key set.
func WithKeySetURL(jku string) SignerOption { return func(c *signerConfig) { c.jku = jku } }

// NewSigner returns a signer with a private key. The key may be stored elsewhere, for example in a key management
// service. The key determines the algorithm: ES256, ES384 or ES512 for ECDSA, EdDSA for Ed25519, RS256 for RSA of at
// least 2,048 bits.
func NewSigner(key crypto.Signer, opts ...SignerOption) (*Signer, error) {
	if key == nil {
		return nil, errors.New("cardsign: the key is nil")
	}
	var cfg signerConfig
	if err := option.Apply(&cfg, opts); err != nil {
		return nil, fmt.Errorf("cardsign: %w", err)
	}
	public := key.Public()
	algs, err := algorithms(public)
	if err != nil {
		return nil, fmt.Errorf("cardsign: %w", err)
	}
	if cfg.kid == "" {
		if cfg.kid, err = thumbprint(public); err != nil {
			return nil, fmt.Errorf("cardsign: the key has no thumbprint: %w", err)
		}
	}
	header := (&jose.SignerOptions{}).WithType("JOSE").WithHeader("kid", cfg.kid)
	if cfg.jku != "" {
		if u, err := url.Parse(cfg.jku); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
			return nil, errors.New("cardsign: the address of the key set must be an https URL without credentials")
		}
		header.WithHeader("jku", cfg.jku)
	}
	jws, err := jose.NewSigner(jose.SigningKey{Algorithm: algs[0], Key: cryptosigner.Opaque(verifiedSigner{key})}, header)
	if err != nil {
		return nil, fmt.Errorf("cardsign: %w", err)
	}
	return &Signer{Key{cfg.kid, public}, jws}, nil
}

// NewSignerPEM is [NewSigner] with an unencrypted private key in a PEM block: PKCS #8, SEC 1 or PKCS #1.
func NewSignerPEM(text []byte, opts ...SignerOption) (*Signer, error) {
	key, err := parsePrivateKey(text)
	if err != nil {
		return nil, fmt.Errorf("cardsign: %w", err)
	}
	return NewSigner(key, opts...)
}

// Key returns the public key with the id in the signatures.
func (s *Signer) Key() Key { return s.key }

// Sign appends signatures to the card. They cover the card as A2A 1.0 encodes it, with empty required fields. On an
// error the card is unchanged.
func (s *Signer) Sign(card *sdk.AgentCard) error {
	tree, err := cardjson.Tree(card)
	if err != nil {
		return fmt.Errorf("cardsign: the card cannot be signed: %w", err)
	}
	sigs, err := s.sign(tree)
	if err != nil {
		return err
	}
	card.Signatures = slices.Concat(card.Signatures, sigs)
	return nil
}

// SignJSON returns the card with added signatures. It is for documents with fields beyond A2A 1.0, such as those of
// protocol 0.3: one signature covers only the fields of 1.0, for verifiers that know no others, and one covers the
// whole document. The members of the result are sorted by name.
func (s *Signer) SignJSON(card []byte) ([]byte, error) {
	tree, err := cardjson.Parse(card)
	if err != nil {
		return nil, fmt.Errorf("cardsign: %w", err)
	}
	var signatures []any
	switch v := tree["signatures"].(type) {
	case nil:
	case []any:
		signatures = v
	default:
		return nil, fmt.Errorf("cardsign: %w: its signatures are not a list", cardjson.ErrJSON)
	}
	sigs, err := s.sign(tree)
	if err != nil {
		return nil, err
	}
	for _, sig := range sigs {
		signatures = append(signatures, sig)
	}
	tree["signatures"] = signatures
	return plainjson.Marshal(tree)
}

// sign signs each form of the document that a verifier may check: the form of the specification, the one without empty
// fields, and, if the document has fields that the protocol does not define, the whole document.
func (s *Signer) sign(tree map[string]any) ([]sdk.AgentCardSignature, error) {
	var known, whole []cardjson.Form
	for _, f := range cardjson.Forms(tree) {
		switch {
		case f.Missing == nil:
			whole = append(whole, f)
		case !slices.Contains(f.Missing, "securitySchemes"):
			known = append(known, f)
		}
	}
	signed := whole[:2] // no verifier needs the third form, the unchanged document
	if known != nil {
		signed = append(known, whole[0])
	}
	var sigs []sdk.AgentCardSignature
	var seen [][]byte
	for _, f := range signed {
		payload, err := cardjson.Canonical(f.Tree)
		if err != nil {
			return nil, fmt.Errorf("cardsign: the card has no canonical form: %w", err)
		}
		if slices.ContainsFunc(seen, func(other []byte) bool { return bytes.Equal(other, payload) }) {
			continue
		}
		seen = append(seen, payload)
		obj, err := s.jws.Sign(payload)
		if err != nil {
			return nil, fmt.Errorf("cardsign: the card could not be signed: %w", err)
		}
		detached, err := obj.DetachedCompactSerialize()
		if err != nil {
			return nil, fmt.Errorf("cardsign: the signature cannot be encoded: %w", err)
		}
		protected, value, _ := strings.Cut(detached, "..")
		sigs = append(sigs, sdk.AgentCardSignature{Protected: protected, Signature: value})
	}
	return sigs, nil
}

// verifiedSigner is a key whose ECDSA signatures are verified, because go-jose splits them without validation.
// Signatures with a key in memory are deterministic (RFC 6979): equal cards get equal signatures, so that replicas of a
// server return the same document and ETag.
type verifiedSigner struct{ crypto.Signer }

func (c verifiedSigner) Sign(random io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	if _, ok := c.Signer.(*ecdsa.PrivateKey); ok {
		random = nil
	}
	sig, err := c.Signer.Sign(random, digest, opts)
	if public, ok := c.Public().(*ecdsa.PublicKey); ok && err == nil && !ecdsa.VerifyASN1(public, digest, sig) {
		return nil, errors.New("the key returned an invalid ECDSA signature")
	}
	return sig, err
}
