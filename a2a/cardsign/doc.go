// Package cardsign signs agent cards and verifies their signatures: JSON Web
// Signatures (RFC 7515) over the canonical form (RFC 8785) of a card, as A2A 1.0
// has them in section 8.4.
//
//	signer, err := cardsign.NewSigner(key, cardsign.WithKeyID("2026-01"))
//	err = signer.Sign(card)
//
//	verifier, err := cardsign.NewVerifier(cardsign.Key{ID: "2026-01", Public: public})
//	err = verifier.Verify(ctx, document)
//
// The specification signs required fields that are empty; the SDKs for
// JavaScript and Python leave everything out that is empty. Where that makes a
// difference, a [Signer] makes a signature for either, and a [Verifier] accepts
// either. What is empty is therefore not covered when a signature is of the
// second kind: an empty description may have been taken out on the way, and so
// may a security requirement or scheme that consists of its name only.
//
// The package imports the types of github.com/a2aproject/a2a-go, go-jose and jcs,
// and of this module only what reads cards. It never fetches a key: the address
// of a key set in a signature (jku) is handed to the caller's lookup and to
// nobody else.
package cardsign
