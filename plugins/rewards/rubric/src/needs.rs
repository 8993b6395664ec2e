//! Order of items in which each one follows those that it needs.

/// Indices of all items, each after its needs, and otherwise as written.
///
/// # Errors
/// Indices of items that need each other, from one of them back to itself.
pub fn order(needs: &[&[usize]]) -> Result<Vec<usize>, Vec<usize>> {
    let mut order: Vec<usize> = Vec::with_capacity(needs.len());
    let mut placed = vec![false; needs.len()];
    while order.len() < needs.len() {
        let before = order.len();
        for item in 0..needs.len() {
            if !placed[item] && needs[item].iter().all(|need| placed[*need]) {
                placed[item] = true;
                order.push(item);
            }
        }
        if order.len() == before {
            return Err(circle(needs, &placed));
        }
    }
    Ok(order)
}

/// A circle among the items that could not be placed: each of them needs another one.
fn circle(needs: &[&[usize]], placed: &[bool]) -> Vec<usize> {
    let mut path: Vec<usize> = Vec::new();
    let mut next = placed.iter().position(|placed| !placed);
    while let Some(item) = next {
        let start = path.iter().position(|earlier| *earlier == item);
        path.push(item);
        if let Some(start) = start {
            return path.split_off(start);
        }
        next = needs[item].iter().copied().find(|need| !placed[*need]);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_follows_its_needs() {
        assert_eq!(order(&[]), Ok(vec![]));
        assert_eq!(order(&[&[], &[], &[]]), Ok(vec![0, 1, 2]));
        assert_eq!(order(&[&[1], &[2], &[]]), Ok(vec![2, 1, 0]));
        assert_eq!(order(&[&[], &[0, 3], &[0], &[]]), Ok(vec![0, 2, 3, 1]));
    }

    #[test]
    fn circles_are_shown_without_the_items_that_lead_to_them() {
        assert_eq!(order(&[&[0]]), Err(vec![0, 0]));
        assert_eq!(order(&[&[1], &[2], &[1], &[]]), Err(vec![1, 2, 1]));
    }
}
