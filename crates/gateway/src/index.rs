//! Indices of paths, clients, ports and so on: a type for each, so that none is taken for another.
//! Vectors and slices are indexed by them as by numbers.

use crate::address::PATHS_MAX;
use std::fmt;
use std::ops;
use tabane_engine::view::PathId;

/// The place of something of a kind among its like; the letter only tells kinds apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Index<const KIND: char>(usize);

/// A path of a client, below [`PATHS_MAX`]: its place in the configuration, and its id in the
/// engine.
pub(crate) type PathIndex = Index<'p'>;
/// A client at a server: its place among the sessions, which a later one may have.
pub(crate) type ClientIndex = Index<'c'>;
/// A UDP port of a server: its place in the configuration.
pub(crate) type PortIndex = Index<'u'>;
/// A program's relay of datagrams; a later one may have the same.
pub(crate) type AssociationIndex = Index<'a'>;
/// Where a client listens for programs.
pub(crate) type ListenerIndex = Index<'l'>;
/// A server of a client: its place in the configuration.
pub(crate) type ServerIndex = Index<'s'>;

impl<const KIND: char> Index<KIND> {
    pub(crate) fn new(index: usize) -> Self {
        Self(index)
    }

    pub(crate) fn get(self) -> usize {
        self.0
    }

    /// The first `count`.
    pub(crate) fn first(count: usize) -> impl Iterator<Item = Self> {
        (0..count).map(Self)
    }

    /// Each of `all` with its index.
    pub(crate) fn enumerate<T>(
        all: impl IntoIterator<Item = T>,
    ) -> impl Iterator<Item = (Self, T)> {
        all.into_iter().enumerate().map(|(index, item)| (Self(index), item))
    }
}

impl PathIndex {
    /// Every path that a client may have.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Self::first(PATHS_MAX)
    }

    /// As messages and snapshots name it.
    pub(crate) fn id(self) -> u8 {
        self.0 as u8
    }
}

impl From<PathId> for PathIndex {
    fn from(path: PathId) -> Self {
        Self(path.0.into())
    }
}

impl From<PathIndex> for PathId {
    fn from(path: PathIndex) -> Self {
        Self(path.id())
    }
}

impl<const KIND: char> fmt::Display for Index<KIND> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

macro_rules! indexed {
    ($($list:ty),*) => {$(
        impl<T, const KIND: char> ops::Index<Index<KIND>> for $list {
            type Output = T;

            fn index(&self, index: Index<KIND>) -> &T {
                &self[index.0]
            }
        }

        impl<T, const KIND: char> ops::IndexMut<Index<KIND>> for $list {
            fn index_mut(&mut self, index: Index<KIND>) -> &mut T {
                &mut self[index.0]
            }
        }
    )*};
}

indexed!([T], Vec<T>);
