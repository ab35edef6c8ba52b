//! See the function.

fn main() {
    tabane_gateway::bench_udp();
}
