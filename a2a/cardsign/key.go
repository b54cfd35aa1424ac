package cardsign

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	"github.com/go-jose/go-jose/v4"
)

// minRSA is the size in bits of the smallest RSA key that is used (RFC 7518,
// section 3.3).
const minRSA = 2048

// Key is a public key and the id by which signatures name it.
type Key struct {
	// ID is the key id, "kid" in signatures. A key without an id is tried for
	// signatures that name any id.
	ID string
	// Public is an *ecdsa.PublicKey on P-256, P-384 or P-521, an ed25519.PublicKey,
	// or an *rsa.PublicKey of at least 2,048 bits.
	Public crypto.PublicKey
}

// ParsePublicKey reads a PEM block with a public key (PKIX) or a certificate. Nothing
// but the key of a certificate counts: neither its dates nor its issuer are checked.
func ParsePublicKey(text []byte) (crypto.PublicKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("cardsign: there is no PEM block")
	}
	var key any
	var err error
	switch block.Type {
	case "CERTIFICATE":
		var c *x509.Certificate
		if c, err = x509.ParseCertificate(block.Bytes); err == nil {
			key = c.PublicKey
		}
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	default:
		return nil, fmt.Errorf("cardsign: the PEM block is of type %q; want PUBLIC KEY or CERTIFICATE", block.Type)
	}
	if err == nil {
		_, err = algorithms(key)
	}
	if err != nil {
		return nil, fmt.Errorf("cardsign: the public key cannot be used: %w", err)
	}
	return key, nil
}

// parsePrivateKey reads a PEM block with a private key: PKCS #8, SEC 1 or PKCS #1,
// not encrypted.
func parsePrivateKey(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("there is no PEM block")
	}
	var key any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	default:
		return nil, fmt.Errorf("the PEM block is of type %q; want PRIVATE KEY, EC PRIVATE KEY or RSA PRIVATE KEY", block.Type)
	}
	if err != nil {
		return nil, errors.New("the private key cannot be read") // the cause may quote it
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a private key of type %T does not sign", key)
	}
	return signer, nil
}

// ParseKeySet reads a JSON Web Key Set (RFC 7517). Keys that are not for
// signatures or of a kind that is not supported are left out; a set without any
// other is an error.
func ParseKeySet(doc []byte) ([]Key, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(doc, &set); err != nil {
		return nil, fmt.Errorf("cardsign: no key set: %w", err)
	}
	var keys []Key
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		if err := k.UnmarshalJSON(raw); err != nil || !k.Valid() || !k.IsPublic() || k.Use != "" && k.Use != "sig" {
			continue
		}
		if algs, err := algorithms(k.Key); err != nil || k.Algorithm != "" && !slices.Contains(algs, jose.SignatureAlgorithm(k.Algorithm)) {
			continue
		}
		keys = append(keys, Key{k.KeyID, k.Key})
	}
	if len(keys) == 0 {
		return nil, errors.New("cardsign: the key set has no public key for signatures that is supported")
	}
	return keys, nil
}

// KeySet writes the keys as a JSON Web Key Set, for the address that
// [WithKeySetURL] names.
func KeySet(keys ...Key) ([]byte, error) {
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for _, k := range keys {
		algs, err := algorithms(k.Public)
		if err != nil {
			return nil, fmt.Errorf("cardsign: key %q: %w", k.ID, err)
		}
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: k.Public, KeyID: k.ID, Algorithm: string(algs[0]), Use: "sig"})
	}
	return json.Marshal(set)
}

// algorithms returns what may be verified with the key, first what a signer
// uses. A key belongs to its algorithms, so that a signature cannot choose how
// it is to be read.
func algorithms(key crypto.PublicKey) ([]jose.SignatureAlgorithm, error) {
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		if k == nil || k.Curve == nil {
			return nil, errors.New("the ECDSA key is empty")
		}
		switch k.Curve {
		case elliptic.P256():
			return []jose.SignatureAlgorithm{jose.ES256}, nil
		case elliptic.P384():
			return []jose.SignatureAlgorithm{jose.ES384}, nil
		case elliptic.P521():
			return []jose.SignatureAlgorithm{jose.ES512}, nil
		}
		return nil, fmt.Errorf("ECDSA on the curve %s is not supported; use P-256, P-384 or P-521", k.Curve.Params().Name)
	case ed25519.PublicKey:
		if len(k) != ed25519.PublicKeySize {
			return nil, errors.New("the Ed25519 key has the wrong size")
		}
		return []jose.SignatureAlgorithm{jose.EdDSA}, nil
	case *rsa.PublicKey:
		if k == nil || k.N == nil || k.N.BitLen() < minRSA {
			return nil, fmt.Errorf("an RSA key must have %d bits at least", minRSA)
		}
		return []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512}, nil
	}
	return nil, fmt.Errorf("a key of type %T is not supported; use ECDSA, Ed25519 or RSA", key)
}

// thumbprint is the id of a key that was given none (RFC 7638).
func thumbprint(key crypto.PublicKey) (string, error) {
	k := jose.JSONWebKey{Key: key}
	sum, err := k.Thumbprint(crypto.SHA256)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(sum), nil
}
