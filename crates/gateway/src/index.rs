//! Indices of paths, clients, ports and so on: a type for each, so that none is taken for another.
//! Vectors and slices are indexed by them as by numbers.

use crate::address::PATHS_MAX;
use std::fmt;
use std::marker::PhantomData;
use std::ops;
use tabane_engine::view::PathId;

/// The place of something of a kind among its like.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Index<K>(usize, PhantomData<K>);

/// A path of a client, below [`PATHS_MAX`]: its place in the configuration, and its id in the
/// engine.
pub(crate) type PathIndex = Index<kind::Path>;
/// A client at a server: its place among the sessions, which a later one may have.
pub(crate) type ClientIndex = Index<kind::Client>;
/// A UDP port of a server: its place in the configuration.
pub(crate) type PortIndex = Index<kind::Port>;
/// A program's relay of datagrams; a later one may have the same.
pub(crate) type AssociationIndex = Index<kind::Association>;
/// Where a client listens for programs.
pub(crate) type ListenerIndex = Index<kind::Listener>;
/// A server of a client: its place in the configuration.
pub(crate) type ServerIndex = Index<kind::Server>;

/// Kinds of indices; there are no values of them.
pub(crate) mod kind {
    macro_rules! kinds {
        ($($name:ident)*) => {$(
            #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
            pub(crate) enum $name {}
        )*};
    }
    kinds! { Path Client Port Association Listener Server }
}

impl<K> Index<K> {
    pub(crate) fn new(index: usize) -> Self {
        Self(index, PhantomData)
    }

    pub(crate) fn get(self) -> usize {
        self.0
    }

    /// The first `count`.
    pub(crate) fn first(count: usize) -> impl Iterator<Item = Self> {
        (0..count).map(Self::new)
    }

    /// Each of `all` with its index.
    pub(crate) fn enumerate<T>(
        all: impl IntoIterator<Item = T>,
    ) -> impl Iterator<Item = (Self, T)> {
        all.into_iter().enumerate().map(|(index, item)| (Self::new(index), item))
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
        Self::new(path.0.into())
    }
}

impl From<PathIndex> for PathId {
    fn from(path: PathIndex) -> Self {
        Self(path.id())
    }
}

impl<K> fmt::Display for Index<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T, K> ops::Index<Index<K>> for [T] {
    type Output = T;

    fn index(&self, index: Index<K>) -> &T {
        &self[index.0]
    }
}

impl<T, K> ops::IndexMut<Index<K>> for [T] {
    fn index_mut(&mut self, index: Index<K>) -> &mut T {
        &mut self[index.0]
    }
}

impl<T, K> ops::Index<Index<K>> for Vec<T> {
    type Output = T;

    fn index(&self, index: Index<K>) -> &T {
        &self[index.0]
    }
}

impl<T, K> ops::IndexMut<Index<K>> for Vec<T> {
    fn index_mut(&mut self, index: Index<K>) -> &mut T {
        &mut self[index.0]
    }
}
