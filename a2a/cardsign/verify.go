package cardsign

import (
	"context"
	"crypto"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/agentarbor/arbor/a2a/internal/cardjson"
)

const (
	maxSignatures = 16   // signatures of a card that are checked
	maxName       = 2048 // bytes of alg, kid and jku
)

var (
	// ErrUnsigned reports that the card has no signature.
	ErrUnsigned = errors.New("the agent card is not signed")
	// ErrUnverified reports that no signature of the card is valid. The error's text and its wrapped errors contain the
	// reason for each signature.
	ErrUnverified = errors.New("no signature of the agent card could be verified")
	// ErrUnknownKey reports that a signature names an unknown key. A [KeyLookup] returns it.
	ErrUnknownKey = errors.New("unknown key")
)

// UnsignedFieldsError reports a valid signature that does not cover the whole card. It omits fields that A2A 1.0 does
// not define, which anybody may have added, or the security schemes, as signatures of the SDK for JavaScript do.
// errors.Is finds [ErrUnverified].
type UnsignedFieldsError struct {
	Fields []string // their paths, sorted
}

func (e *UnsignedFieldsError) Error() string {
	return fmt.Sprintf("the signature does not cover %s", strings.Join(e.Fields, ", "))
}

// Is makes errors.Is(err, ErrUnverified) true.
func (e *UnsignedFieldsError) Is(target error) bool { return target == ErrUnverified }

// KeyLookup returns the public key with an id, or [ErrUnknownKey]. jku is the address of the key set in the signature,
// or "" if it has none. The author of the card chose that address: fetch it only if its owner is trusted, and guard
// against addresses of the own network. A lookup must refuse revoked and expired keys, and must be safe for concurrent
// use.
type KeyLookup func(ctx context.Context, kid, jku string) (crypto.PublicKey, error)

// Verifier verifies the signatures of agent cards. It is immutable and safe for
// concurrent use.
type Verifier struct {
	keys     []Key
	lookup   KeyLookup
	unsigned []string
}

// NewVerifier returns a verifier that trusts only these keys. It ignores the addresses of key sets in signatures. It
// returns an error if there are no keys, or if one has an unsupported type.
func NewVerifier(keys ...Key) (*Verifier, error) {
	if len(keys) == 0 {
		return nil, errors.New("cardsign: a verifier needs at least one key")
	}
	for _, k := range keys {
		if _, err := algorithms(k.Public); err != nil {
			return nil, fmt.Errorf("cardsign: key %q: %w", k.ID, err)
		}
	}
	return &Verifier{keys: slices.Clone(keys)}, nil
}

// NewVerifierFunc returns a verifier that trusts the keys that the lookup returns. It returns an error if the lookup is
// nil.
func NewVerifierFunc(lookup KeyLookup) (*Verifier, error) {
	if lookup == nil {
		return nil, errors.New("cardsign: the lookup is nil")
	}
	return &Verifier{lookup: lookup}, nil
}

// AllowUnsigned returns a copy of the verifier that accepts these fields without a signature. Name them by the paths of
// an [UnsignedFieldsError], such as "url" for servers that sign the fields of 1.0 and add those of 0.3. Callers must
// not rely on such fields, least of all on "securitySchemes": an attacker who changes them can request credentials for
// another address.
func (v *Verifier) AllowUnsigned(fields ...string) *Verifier {
	c := *v
	c.unsigned = slices.Concat(v.unsigned, fields)
	return &c
}

// Verify returns nil if at least one signature of the card is valid, belongs to a trusted key and covers all fields.
// The card is the JSON document as it was received. The error wraps [ErrUnsigned], [ErrUnverified] or an
// [UnsignedFieldsError], or is the cause of ctx.
//
// Signatures must name their key, and use ECDSA, EdDSA or RSA. "none", shared secrets and critical extensions (RFC
// 7515, section 4.1.11) are refused.
func (v *Verifier) Verify(ctx context.Context, card []byte) error {
	tree, err := cardjson.Parse(card)
	if err != nil {
		return fmt.Errorf("cardsign: %w", err)
	}
	list, ok := tree["signatures"].([]any)
	if !ok && tree["signatures"] != nil {
		return fmt.Errorf("cardsign: %w: its signatures are not a list", cardjson.ErrJSON)
	}
	if len(list) == 0 {
		return fmt.Errorf("cardsign: %w", ErrUnsigned)
	}
	forms, err := v.payloads(tree)
	if err != nil {
		return err
	}
	errs := []any{ErrUnverified}
	if len(list) > maxSignatures {
		errs = append(errs, fmt.Errorf("only the first %d of %d signatures were checked", maxSignatures, len(list)))
		list = list[:maxSignatures]
	}
	for i, s := range list {
		err := v.verify(ctx, s, forms)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		errs = append(errs, fmt.Errorf("signature %d: %w", i+1, err))
	}
	return fmt.Errorf("cardsign: %w"+strings.Repeat("; %w", len(errs)-1), errs...)
}

// payload is a canonical form, and the error for a card that is signed only in this form.
type payload struct {
	bytes    []byte
	unsigned error
}

func (v *Verifier) payloads(tree map[string]any) ([]payload, error) {
	var out []payload
	for _, f := range cardjson.Forms(tree) {
		b, err := cardjson.Canonical(f.Tree)
		if err != nil {
			return nil, fmt.Errorf("cardsign: %w: it has no canonical form: %w", cardjson.ErrJSON, err)
		}
		p := payload{bytes: b}
		if lacks := slices.DeleteFunc(slices.Clone(f.Missing), func(f string) bool { return slices.Contains(v.unsigned, f) }); len(lacks) > 0 {
			p.unsigned = &UnsignedFieldsError{lacks}
		}
		out = append(out, p)
	}
	return out, nil
}

// verify checks one signature. It uses only the protected header.
func (v *Verifier) verify(ctx context.Context, sig any, forms []payload) error {
	m, _ := sig.(map[string]any)
	protected, _ := m["protected"].(string)
	value, _ := m["signature"].(string)
	// Strict decoding, so that a signature has only one encoding.
	header, err := base64.RawURLEncoding.Strict().DecodeString(protected)
	if err != nil || protected == "" {
		return errors.New("its protected header is not base64url")
	}
	if _, err := base64.RawURLEncoding.Strict().DecodeString(value); err != nil || value == "" {
		return errors.New("its value is not base64url")
	}
	h, err := cardjson.Parse(header)
	if err != nil {
		return errors.New("its protected header is not a JSON object")
	}
	if open, ok := m["header"].(map[string]any); ok {
		for name := range open {
			if _, twice := h[name]; twice {
				return fmt.Errorf("%q is in both its protected and its unprotected header", name)
			}
		}
	}
	for _, name := range []string{"crit", "b64"} { // RFC 7515, section 4.1.11, and RFC 7797
		if _, ok := h[name]; ok {
			return fmt.Errorf("its header has %q, which is not supported", name)
		}
	}
	alg, _ := h["alg"].(string)
	kid, _ := h["kid"].(string)
	jku, _ := h["jku"].(string)
	if alg == "" || kid == "" {
		return errors.New("its protected header has no alg or no kid")
	}
	if len(alg) > maxName || len(kid) > maxName || len(jku) > maxName {
		return fmt.Errorf("its protected header has a value of more than %d bytes", maxName)
	}
	keys, err := v.find(ctx, kid, jku)
	if err != nil {
		return fmt.Errorf("its key %q: %w", kid, err)
	}
	failure := fmt.Errorf("it does not match this card and the key %q", kid)
	for _, key := range keys {
		algs, err := algorithms(key)
		if err != nil {
			failure = fmt.Errorf("its key %q: %w", kid, err)
			continue
		}
		if !slices.Contains(algs, jose.SignatureAlgorithm(alg)) {
			failure = fmt.Errorf("its algorithm %q does not match the key %q", alg, kid)
			continue
		}
		for _, f := range forms {
			if !valid(f.bytes, protected, value, jose.SignatureAlgorithm(alg), key) {
				continue
			}
			if f.unsigned == nil {
				return nil
			}
			failure = f.unsigned
		}
	}
	return failure
}

func (v *Verifier) find(ctx context.Context, kid, jku string) ([]crypto.PublicKey, error) {
	if v.lookup != nil {
		key, err := v.lookup(ctx, kid, jku)
		if err != nil {
			return nil, err
		}
		return []crypto.PublicKey{key}, nil
	}
	var keys []crypto.PublicKey
	for _, k := range v.keys {
		if k.ID == "" || k.ID == kid {
			keys = append(keys, k.Public)
		}
	}
	if keys == nil {
		return nil, ErrUnknownKey
	}
	return keys, nil
}

func valid(payload []byte, protected, value string, alg jose.SignatureAlgorithm, key crypto.PublicKey) bool {
	jws, err := jose.ParseDetached(protected+".."+value, payload, []jose.SignatureAlgorithm{alg})
	if err != nil {
		return false
	}
	_, err = jws.Verify(key)
	return err == nil
}
