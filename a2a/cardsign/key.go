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

	"github.com/go-jose/go-jose/v4"
)

// minRSA is the minimum size of an RSA key in bits (RFC 7518, section 3.3).
const minRSA = 2048

// Key is a public key and its id in signatures.
type Key struct {
	// ID is the key id, "kid" in signatures. A key without an id is tried for signatures with any id.
	ID string
	// Public is an *ecdsa.PublicKey on P-256, P-384 or P-521, an ed25519.PublicKey,
	// or an *rsa.PublicKey of at least 2,048 bits.
	Public crypto.PublicKey
}

// parsePrivateKey parses a PEM block with an unencrypted private key: PKCS #8, SEC 1 or PKCS #1.
func parsePrivateKey(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("the text contains no PEM block")
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
		return nil, fmt.Errorf("a private key of type %T cannot sign", key)
	}
	return signer, nil
}

// KeySet returns the keys as a JSON Web Key Set (RFC 7517), to be published at the address of [WithKeySetURL]. The type
// jose.JSONWebKeySet of go-jose decodes it. A key of an unsupported type is an error.
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

// algorithms returns the algorithms that signatures of a key may use. The first one is the signer's.
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

// thumbprint returns the default id of a key (RFC 7638).
func thumbprint(key crypto.PublicKey) (string, error) {
	k := jose.JSONWebKey{Key: key}
	sum, err := k.Thumbprint(crypto.SHA256)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(sum), nil
}
