// Package upgrade tests an upgrade of the schema while runners of the old and of the new version work
// on it. It has no code of its own.
//
// The old version is that of the tag v0.1.0, or of PRESCIENT_UPGRADE_FROM, a revision of git; without
// both it is the last commit. The new one is this tree. If both have the same version of the schema,
// the new one gets a migration and changed functions, which only add.
package upgrade
