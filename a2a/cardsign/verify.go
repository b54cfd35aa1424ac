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
	maxSignatures = 16   // of a card that are looked at
	maxName       = 2048 // bytes of alg, kid and jku
)

var (
	// ErrUnsigned: the card has no signature.
	ErrUnsigned = errors.New("the agent card is not signed")
	// ErrUnverified: no signature of the card is right. What is wrong with each of
	// them is in the error's text, and in its tree.
	ErrUnverified = errors.New("no signature of the agent card could be verified")
	// ErrUnknownKey: a signature names a key that is not known. Lookups return it.
	ErrUnknownKey = errors.New("unknown key")
)

// UnsignedFieldsError reports a signature that is right but does not cover all of
// the card: it omits fields that are not of A2A 1.0, which anybody may have added, or
// the security schemes, as the SDK for JavaScript does. errors.Is finds [ErrUnverified].
type UnsignedFieldsError struct {
	Fields []string // their paths, in order
}

func (e *UnsignedFieldsError) Error() string {
	return fmt.Sprintf("the signature does not cover %s", strings.Join(e.Fields, ", "))
}

// Is makes errors.Is(err, ErrUnverified) true.
func (e *UnsignedFieldsError) Is(target error) bool { return target == ErrUnverified }

// KeyLookup returns the public key of an id, or [ErrUnknownKey]. jku is the address of
// the key set that the signature names, "" if it names none. The author of the card
// chose that address: a lookup may fetch it only if it trusts the owner, and must guard
// against addresses of its own network. It must refuse keys that were revoked or have
// expired. It may be called concurrently.
type KeyLookup func(ctx context.Context, kid, jku string) (crypto.PublicKey, error)

// Verifier verifies the signatures of agent cards. It is immutable and safe for
// concurrent use.
type Verifier struct {
	keys     []Key
	lookup   KeyLookup
	unsigned []string
}

// NewVerifier returns a verifier that trusts these keys and no other. It ignores the
// addresses of key sets in signatures. It is an error if there are no keys, or one is
// of an unsupported kind.
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

// NewVerifierFunc returns a verifier that trusts the keys that the lookup returns. It is
// an error if the lookup is nil.
func NewVerifierFunc(lookup KeyLookup) (*Verifier, error) {
	if lookup == nil {
		return nil, errors.New("cardsign: the lookup is nil")
	}
	return &Verifier{lookup: lookup}, nil
}

// AllowUnsigned returns a verifier that accepts these fields without a signature
// over them. They are named by the paths of an [UnsignedFieldsError], such as "url" of
// servers that sign the fields of 1.0 and add those of 0.3. Callers must not act on such
// fields, least of all on "securitySchemes": an attacker who changes these can ask for
// credentials at another address.
func (v *Verifier) AllowUnsigned(fields ...string) *Verifier {
	c := *v
	c.unsigned = slices.Concat(v.unsigned, fields)
	return &c
}

// Verify returns nil if at least one signature of the card is right, by a key
// that is trusted, and covers all of its fields. The card is the JSON document
// as it was received. The error is [ErrUnsigned], [ErrUnverified], an
// [UnsignedFieldsError], or the cause of ctx.
//
// Signatures must name their key, and use ECDSA, EdDSA or RSA: "none" and shared
// secrets are refused, and so are critical extensions (RFC 7515, section 4.1.11).
func (v *Verifier) Verify(ctx context.Context, card []byte) error {
	tree, err := cardjson.Parse(card)
	if err != nil {
		return fmt.Errorf("cardsign: %w", err)
	}
	list, ok := tree["signatures"].([]any)
	if !ok && tree["signatures"] != nil {
		return fmt.Errorf("cardsign: %w: its signatures are no list", cardjson.ErrJSON)
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
		errs = append(errs, fmt.Errorf("only the first %d of %d signatures were looked at", maxSignatures, len(list)))
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

// payload is a canonical form, and what is wrong with a card that is signed in
// this form only.
type payload struct {
	bytes []byte
	lacks error
}

func (v *Verifier) payloads(tree map[string]any) ([]payload, error) {
	var out []payload
	for _, f := range cardjson.Forms(tree) {
		b, err := cardjson.Canonical(f.Tree)
		if err != nil {
			return nil, fmt.Errorf("cardsign: %w: it has no canonical form: %w", cardjson.ErrJSON, err)
		}
		p := payload{bytes: b}
		if lacks := slices.DeleteFunc(slices.Clone(f.Lacks), func(f string) bool { return slices.Contains(v.unsigned, f) }); len(lacks) > 0 {
			p.lacks = &UnsignedFieldsError{lacks}
		}
		out = append(out, p)
	}
	return out, nil
}

// verify checks one signature. It reads nothing from the header that the
// signature does not protect.
func (v *Verifier) verify(ctx context.Context, sig any, forms []payload) error {
	m, _ := sig.(map[string]any)
	protected, _ := m["protected"].(string)
	value, _ := m["signature"].(string)
	// Strict, so that there is only one way to write a signature.
	header, err := base64.RawURLEncoding.Strict().DecodeString(protected)
	if err != nil || protected == "" {
		return errors.New("its protected header is not base64url")
	}
	if _, err := base64.RawURLEncoding.Strict().DecodeString(value); err != nil || value == "" {
		return errors.New("its value is not base64url")
	}
	h, err := cardjson.Parse(header)
	if err != nil {
		return errors.New("its protected header is no JSON object")
	}
	if open, ok := m["header"].(map[string]any); ok {
		for name := range open {
			if _, twice := h[name]; twice {
				return fmt.Errorf("%q is in both of its headers", name)
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
		return errors.New("its protected header lacks alg or kid")
	}
	if len(alg) > maxName || len(kid) > maxName || len(jku) > maxName {
		return fmt.Errorf("its protected header has a value of more than %d bytes", maxName)
	}
	keys, err := v.find(ctx, kid, jku)
	if err != nil {
		return fmt.Errorf("its key %q: %w", kid, err)
	}
	failure := fmt.Errorf("it is not of this card, or not by the key %q", kid)
	for _, key := range keys {
		algs, err := algorithms(key)
		if err != nil {
			failure = fmt.Errorf("its key %q: %w", kid, err)
			continue
		}
		if !slices.Contains(algs, jose.SignatureAlgorithm(alg)) {
			failure = fmt.Errorf("its algorithm %q is not one of the key %q", alg, kid)
			continue
		}
		for _, f := range forms {
			if !valid(f.bytes, protected, value, jose.SignatureAlgorithm(alg), key) {
				continue
			}
			if f.lacks == nil {
				return nil
			}
			failure = f.lacks
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
